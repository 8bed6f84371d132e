"""byteps.numpy on arrays in the memory of the stand-in for the CUDA driver."""

from __future__ import annotations

import re
from pathlib import Path

import job_runs
import pytest
from job_runs import COLD_PYTHON, finish, job, what_is_missing
from shapes import FULL

environment = job_runs.environment

LIBRARY = Path(__file__).parents[3] / "build/tests/cuda_standin/libbyteps_cuda_standin.so"
needs_gpu = [
    pytest.mark.skipif(not LIBRARY.exists(), reason="the stand-in for CUDA is not built"),
    pytest.mark.skipif(
        bool(what_is_missing("numpy")), reason="byteps is not installed in this Python"
    ),
]

pytestmark = needs_gpu
JOBS = [(2, 0), (3, 2)] if FULL else [(2, 1)]


@pytest.mark.parametrize(("workers", "servers"), JOBS)
@pytest.mark.parametrize("way", ["auto", "host"])
def test_operations_on_a_gpu(environment, workers, servers, way, capsys) -> None:
    """All of them, where the library reaches the memory of GPUs and where it may not."""
    environment |= {"BYTEPS_CUDA_LIBRARY": str(LIBRARY), "BYTEPS_DEVICE_SUMS": way}
    code, out, err = finish(
        job(environment, "gpu_operations", workers, servers, python=COLD_PYTHON)
    )
    assert code == 0, out + err
    assert out.count("all right") == workers
    warned = err.count("tensors on cuda are copied through host memory")
    assert warned == (workers if way == "host" else 0), err
    counts = [int(count) for count in re.findall(r"(\d+) results on the GPU", out)]
    assert min(counts) > 60
    with capsys.disabled():
        print(f"\n{max(counts)} results on the GPU", end=" ")
