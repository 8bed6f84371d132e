"""The handler for custom calls of XLA on CUDA, over the stand-in for the CUDA driver."""

from __future__ import annotations

import job_runs
import pytest
from job_runs import COLD_PYTHON, finish, job
from shapes import FULL
from test_numpy_on_a_device import LIBRARY, needs_gpu

environment = job_runs.environment

pytestmark = needs_gpu


@pytest.mark.parametrize(("workers", "servers"), [(2, 0), (3, 2)] if FULL else [(2, 1)])
def test_custom_calls_of_xla_on_a_gpu(environment, workers, servers) -> None:
    """From XLA's call frame to the results in the memory of the GPU."""
    environment |= {"BYTEPS_CUDA_LIBRARY": str(LIBRARY)}
    code, out, err = finish(job(environment, "gpu_programs", workers, servers, python=COLD_PYTHON))
    assert code == 0, out + err
    assert out.count("all right") == workers
