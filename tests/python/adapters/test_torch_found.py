"""torch finds the backend by its name, and it refuses arguments that it cannot honour."""

from __future__ import annotations

import subprocess
import sys
import types

import job_runs
import pytest
from job_runs import COLD_PYTHON, job
from processes import LIMIT_S, finish
from torch_jobs import needs_entry_points, needs_torch

from byteps.common.errors import InvalidArgumentError

environment = job_runs.environment
pytestmark = needs_torch

BACKENDS = ("byteps", "cpu:byteps", "cpu:byteps,cuda:nccl")


@needs_entry_points
def test_programs_that_only_name_the_backend(environment) -> None:
    """Under a launcher that sets none of torch's variables, so byteps is where the ranks meet."""
    started = job(environment, "found", 2, 0, arguments=BACKENDS, python=COLD_PYTHON)
    code, out, err = finish(started)
    assert code == 0, out + err
    assert out.count("all right") == 2, out


@needs_entry_points
def test_import_of_torch_stays_light_and_well(environment, tmp_path) -> None:
    """Without the program asking for it, nothing of the backend is imported; nor does an error in
    what torch calls end `import torch`."""
    script = (
        "import sys, torch\n"
        "print(sorted(name for name in sys.modules if name.startswith('byteps.') and\n"
        "             name.split('.')[1] in ('torch', '_core', 'numpy')))\n"
        "print(torch.distributed.is_backend_available('byteps'))\n"
    )
    broken = tmp_path / "sitecustomize.py"  # as a torch would be that has changed its insides
    broken.write_text(
        "import byteps.torch_registry\nbyteps.torch_registry._handlers = lambda: 1 // 0\n"
    )
    for path, expected, told in (("", "[]\nTrue", 0), (str(tmp_path), "[]", 1)):
        ended = subprocess.run(
            [sys.executable, "-c", script],
            env={**environment, "PYTHONPATH": path},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.startswith(expected), ended.stdout
        assert ended.stderr.count("'import byteps.torch' makes it known") == told, ended.stderr


def test_a_group_of_two_backends_gives_each_device_its_own(environment) -> None:
    code, out, err = finish(job(environment, "split_groups", 2, 0))
    assert code == 0, out + err
    assert out.count("all right") == 2, out


@pytest.mark.parametrize(
    ("options", "backend_options", "text"),
    [
        ({"enable_reconfigure": True}, None, "enable_reconfigure=True"),
        ({}, types.SimpleNamespace(), "pg_options is a SimpleNamespace"),
    ],
)
def test_arguments_that_cannot_be_honoured(options, backend_options, text) -> None:
    from byteps.torch.distributed import split_group

    with pytest.raises(InvalidArgumentError, match=text):
        split_group.create(types.SimpleNamespace(**options), backend_options)


@needs_entry_points
def test_a_program_that_names_gloo_gets_byteps_if_asked(environment) -> None:
    """With default groups, groups by device, subgroups and torch's DistributedDataParallel."""
    started = job(environment, "as_gloo", 2, 0, "--as", "gloo", python=COLD_PYTHON)
    code, out, err = finish(started)
    assert code == 0, out + err
    assert out.count("all right") == 2, out
    assert err.count("names 'gloo' in torch.distributed and gets byteps") == 1, err
    assert "called init" not in err, err


def test_a_backend_that_byteps_cannot_stand_in_for(environment) -> None:
    started = job(environment, "as_gloo", 2, 0, "--as", "mpi", python=COLD_PYTHON)
    code, _, err = finish(started)
    assert code == 2
    said = " ".join(err.split())  # its lines break anywhere
    assert "argument --as: 'mpi' is not gloo" in said, err
