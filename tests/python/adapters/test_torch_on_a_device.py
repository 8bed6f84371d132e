"""Jobs of torch whose tensors lie in the memory of the stand-in for the CUDA driver."""

from __future__ import annotations

import job_runs
import pytest
from job_runs import COLD_PYTHON, finish, job
from torch_jobs import needs_torch

environment = job_runs.environment

torch = pytest.importorskip("torch")

import stand_in  # noqa: E402

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))


@needs_torch
@pytest.mark.skipif(VERSION < (2, 13), reason="torch before 2.13 takes no such memory")
@pytest.mark.skipif(stand_in.library() is None, reason="the stand-in for CUDA is not built")
@pytest.mark.parametrize(("workers", "servers"), [(2, 0), (3, 1)])
def test_tensors_on_a_device_are_exchanged_where_they_are(environment, workers, servers) -> None:
    environment = {**environment, "BYTEPS_CUDA_LIBRARY": str(stand_in.library())}
    program = job(environment, "on_a_device", workers, servers, python=COLD_PYTHON)
    code, out, err = finish(program)
    assert code == 0, out + err
    assert out.count("all right") == workers
