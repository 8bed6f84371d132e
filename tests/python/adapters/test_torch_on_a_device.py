"""Programs of torch run once more with all tensors in the memory of the stand-in for the CUDA
driver, as the device `standin` of torch. TEST_FULL=1 runs all of them, with other numbers of ranks.
"""

from __future__ import annotations

import re

import job_runs
import pytest
from job_runs import COLD_PYTHON, finish, job
from shapes import FULL
from torch_jobs import needs_torch

environment = job_runs.environment

torch = pytest.importorskip("torch")

IS_NEW = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 13)
LIBRARY = None
if IS_NEW:  # others lack what the device is made of
    import stand_in

    LIBRARY = stand_in.library()
pytestmark = [
    needs_torch,
    pytest.mark.skipif(not IS_NEW, reason="torch before 2.13 takes no such memory"),
    pytest.mark.skipif(IS_NEW and LIBRARY is None, reason="the stand-in for CUDA is not built"),
]

JOBS = [("operations", 2, 1)]
MORE = [
    ("collectives", 2, 0),
    ("operations", 3, 0),
    ("collectives", 3, 2),
    ("training", 2, 0),
    ("training_ways", 2, 1),
    ("layers", 2, 0),
]


@pytest.mark.parametrize(("program", "workers", "servers"), JOBS + (MORE if FULL else []))
def test_programs_of_torch_on_a_device(environment, program, workers, servers, capsys) -> None:
    environment |= {"BYTEPS_CUDA_LIBRARY": str(LIBRARY)}
    if program == "collectives":  # it has operations that must end by their limit
        environment |= {"BYTEPS_OPERATION_TIMEOUT": "30"}
    arguments = ("on_a_device", workers, servers)
    code, out, err = finish(job(environment, *arguments, arguments=(program,), python=COLD_PYTHON))
    assert code == 0, out + err
    assert out.count("all right") == workers
    counts = re.findall(r"(\d+) checks, (\d+) operations of torch on standin", out)
    assert len(counts) == workers
    assert all(int(operations) > 300 for _, operations in counts), "tensors were on the device"
    with capsys.disabled():
        print(f"\n{program}: {counts[0][0]} checks, {counts[0][1]} operations on standin", end=" ")


def test_a_rank_killed_in_the_middle_of_copies_takes_nothing_with_it(environment) -> None:
    environment |= {"BYTEPS_CUDA_LIBRARY": str(LIBRARY)}
    options = ("--min-np", "2")
    program = job(
        environment, "on_a_device", 3, 2, *options, arguments=("device_kill",), python=COLD_PYTHON
    )
    code, out, err = finish(program)
    assert code == 0, out + err
    assert out.count("all right") == 2, out + err
