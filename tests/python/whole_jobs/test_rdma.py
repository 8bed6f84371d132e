"""Whole jobs over RDMA, with the stand-in for libibverbs: the bits of TCP, forks, and processes
that are killed or stand still. TEST_FULL=1 kills 50 processes of each role.
"""

from __future__ import annotations

import random
import re
import signal
import sys
import time
from pathlib import Path

import job_runs
import pytest
import torch_jobs
from job_runs import REPOSITORY
from rank_programs import rank_program
from rdma_jobs import expect_no_complaint, needs_standin, over_rdma, over_tcp, run_spread
from rdma_kill_job import RdmaKillJob
from shapes import FULL

environment = job_runs.environment
pytestmark = [torch_jobs.needs_torch, needs_standin]

ALL = [0, 1, 2, 3]
TRIALS = range(50 if FULL else 1)


def weights(outputs: list[str]) -> str:
    """Return the fingerprint that both workers have printed."""
    found = {match[1] for out in outputs for match in re.finditer(r"weights (\w{64}) of", out)}
    (fingerprint,) = found
    return fingerprint


def test_digits_have_the_weights_of_tcp_in_every_bit(environment, tmp_path) -> None:
    program = str(REPOSITORY / "examples/torch_digits.py")
    files = {}
    for name, told in (("rdma", over_rdma(tmp_path)), ("tcp", over_tcp())):
        files[name] = tmp_path / f"{name}.pt"
        words = ("--epochs", "1", "--weights", str(files[name]))
        outputs = run_spread({**environment, **told}, sys.executable, program, *words)
        assert ("tensors go over rdma standin0" in "".join(outputs)) == (name == "rdma"), outputs
    assert expect_no_complaint(tmp_path, 4) > 100 << 20
    import torch

    states = [torch.load(file) for file in files.values()]
    assert states[0].keys() == states[1].keys()
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name]), name


def test_processes_of_a_loader_that_write_everywhere_change_nothing(environment, tmp_path) -> None:
    program = rank_program("forked_loader")
    found = []
    for told, processes in ((over_tcp(), "0"), (over_rdma(tmp_path), "4")):
        command = (sys.executable, program, processes)
        found.append(weights(run_spread({**environment, **told}, *command)))
    assert found[0] == found[1]
    assert expect_no_complaint(tmp_path, 4) > 10 << 20


@pytest.fixture
def start(tmp_path: Path):
    """Starts a job in which RDMA carries; ends it if the test does not."""
    jobs = []

    def make(trial: int, servers: int, *options: str) -> RdmaKillJob:
        job = RdmaKillJob(tmp_path, 1 << 20, 4, servers, options)
        jobs.append(job)
        job.warm_up()
        job.wait_until_rdma_carries()
        # Any instant of a round.
        job.run_for(random.Random(trial).uniform(0, 0.05))
        return job

    yield make
    for job in jobs:
        job.__exit__(None, None, None)


@pytest.mark.parametrize("trial", TRIALS)
def test_a_worker_is_killed_while_rdma_carries(start, trial) -> None:
    job = start(trial, 2, "--min-np", "3")
    victim = trial % 4
    rest = [rank for rank in ALL if rank != victim]
    moment = job.send(f"worker {victim}", signal.SIGKILL)
    job.go_on(rest, moment, rounds=5)
    job.wait_until_rdma_carries()
    job.check_end(5)


@pytest.mark.parametrize("trial", TRIALS)
def test_a_server_is_killed_while_rdma_carries_and_its_successor_has_rdma(start, trial) -> None:
    job = start(trial, 3)
    victim = f"server {trial % 3}"
    old = job.process_of(victim)
    moment = job.send(victim, signal.SIGKILL)
    job.wait_for_restart(victim, old)
    job.go_on(ALL, moment, rounds=20)
    job.wait_until_rdma_carries()
    job.check_end(7)
    killed = f"{victim} was killed by signal 9 (SIGKILL); restarting it (1 of 3)"
    assert job.messages() == [killed], job.describe()


@pytest.mark.parametrize("trial", TRIALS)
def test_the_scheduler_is_killed_while_rdma_carries(start, trial) -> None:
    job = start(trial, 2)
    old = job.process_of("scheduler")
    moment = job.send("scheduler", signal.SIGKILL)
    job.go_on(ALL, moment, rounds=5)
    job.wait_for_restart("scheduler", old)
    job.wait_until_rdma_carries()
    job.check_end(6)


@pytest.mark.parametrize("victim", ["server 1", *["worker 2"] * FULL])
def test_a_process_that_stands_still_for_5_s_goes_on(start, victim) -> None:
    job = start(0, 2)
    job.send(victim, signal.SIGSTOP)
    moment = time.monotonic()  # not before: this process may wait for a processor in between
    job.run_for(5)
    job.send(victim, signal.SIGCONT)
    assert all(log.completed_after(moment) <= 2 for log in job.logs.values()), job.describe()
    job.go_on(ALL, moment, rounds=20)
    job.check_end(6)
    assert job.messages() == [], job.describe()
