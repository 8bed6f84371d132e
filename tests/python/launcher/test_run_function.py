"""`byteps.run`: a function as the program of a job."""

from __future__ import annotations

import signal
import subprocess
import sys

import job_runs
import pytest
import torch_jobs
from processes import finish, wait_for_line

environment = job_runs.environment
pytestmark = torch_jobs.needs_torch

BEGIN = """
import sys
import time
import numpy as np
import byteps
import byteps.numpy as bps

def total(value, scale=1):
    bps.init()
    print("here is", bps.rank(), flush=True)
    return bps.rank(), bps.push_pull(np.full(2, value * scale), average=False, name="x").tolist()

def one_fails(rank):
    bps.init()
    if bps.rank() == rank:
        raise ValueError("planned")
    bps.push_pull(np.ones(2), name="x")

def stay():
    bps.init()
    print("ready", flush=True)
    time.sleep(3600)
"""


def program(environment, text: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", BEGIN + text],
        env=environment,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("servers", [None, 1])
def test_results_come_in_the_order_of_ranks(environment, servers) -> None:
    call = f"byteps.run(total, args=(2.0,), kwargs={{'scale': 3}}, np=2, servers={servers})"
    code, out, err = finish(program(environment, f"print({call})"))
    assert code == 0, err
    assert "[(0, [12.0, 12.0]), (1, [12.0, 12.0])]" in out
    assert "[worker 1] here is 1" in out


def test_an_exception_comes_with_its_traceback(environment) -> None:
    text = """
try:
    byteps.run(one_fails, args=(1,), np=2)
except byteps.FunctionError as error:
    print(error.rank, "in one_fails" in error.traceback)
    raise
"""
    code, out, err = finish(program(environment, text))
    assert code == 1
    assert "1 True" in out
    assert "rank 1 of the function raised ValueError: planned" in err


def test_a_rank_that_exits_is_told(environment) -> None:
    code, _, err = finish(program(environment, "byteps.run(sys.exit, args=(3,), np=2)"))
    assert code == 1
    assert "the job ended with exit code 3; no result came from ranks 0, 1" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_the_caller_ends(environment, number) -> None:
    job = program(environment, "byteps.run(stay, np=2)")
    wait_for_line(job, "ready")
    wait_for_line(job, "ready")
    job.send_signal(number)
    finish(job)  # the fixture sees that nothing is left
    assert job.returncode == -number
