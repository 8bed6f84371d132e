"""The programs of ./dev gpu-kit, which try themselves on the processor here."""

from __future__ import annotations

import subprocess
import sys

import pytest
from job_runs import REPOSITORY
from processes import LIMIT_S, clean_environment
from shapes import FULL
from torch_jobs import needs_torch

PROGRAMS = {"arrays": "194 results", "ways": "7 ways"} if FULL else {"arrays": "194 results"}


@needs_torch
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_of_the_kit(program) -> None:
    script = str(REPOSITORY / "tests/gpu" / f"{program}.py")
    command = [sys.executable, "-m", "byteps.cli", "run", "-np", "2", sys.executable, script, "cpu"]
    done = subprocess.run(
        command,
        env={**clean_environment(), "OMP_NUM_THREADS": "1"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"all right: {PROGRAMS[program]}") == 2


def test_a_machine_without_a_gpu_ends_at_once_and_says_so() -> None:
    script = str(REPOSITORY / "tests/gpu/check.py")
    environment = {**clean_environment(), "BYTEPS_CUDA_LIBRARY": "/none/libcuda.so.1"}
    done = subprocess.run(
        [sys.executable, script], env=environment, cwd="/", capture_output=True, text=True,
        timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "no GPU can be checked here" in done.stdout
    assert "/none/libcuda.so.1" in done.stdout
