"""Workers that live when their job ends early have the grace time to save what they have."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import job_runs
import pytest
import torch_jobs
from processes import finish, wait_for_line
from shapes import FULL

environment = job_runs.environment
pytestmark = torch_jobs.needs_torch

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "torch_checkpoint.py"
FOR_EVER = str(10**9)


def start(environment, folder: Path, *options: str, steps: str) -> subprocess.Popen[str]:
    """Start the example with a grace time that the test does not wait for."""
    program = [sys.executable, str(EXAMPLE), "--folder", str(folder), "--steps", steps]
    return subprocess.Popen(
        [sys.executable, "-m", "byteps.cli", "run", "--grace", "1000", *options, *program],
        env=environment,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("servers", [("--servers", "1"), *[()] * FULL], ids=" ".join)
def test_a_survivor_saves_and_the_next_job_goes_on(environment, tmp_path, servers) -> None:
    options = ("-np", "2", *servers)
    job = start(environment, tmp_path, *options, steps=FOR_EVER)
    wait_for_line(job, "begins at step 0")
    wait_for_line(job, "begins at step 0")
    os.kill(job_runs.process_of(environment, "worker 1"), signal.SIGKILL)
    code, out, err = finish(job)
    assert code == 137, out + err
    assert "worker 1 was killed by signal 9" in err
    step = re.search(r"\[worker 0\] saved after step (\d+)", out)
    assert step is not None, out + err
    assert [path.name for path in tmp_path.iterdir()] == ["rank0.pt"]

    code, out, err = finish(start(environment, tmp_path, *options, steps=step[1]))
    assert code == 0, out + err
    for rank in range(2):
        assert f"[worker {rank}] begins at step {step[1]}" in out


def test_all_save_when_the_job_is_asked_to_end(environment, tmp_path) -> None:
    job = start(environment, tmp_path, "-np", "2", steps=FOR_EVER)
    wait_for_line(job, "begins at step 0")
    wait_for_line(job, "begins at step 0")
    job.send_signal(signal.SIGTERM)
    code, out, err = finish(job)
    assert code == 128 + signal.SIGTERM, out + err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank0.pt", "rank1.pt"]
