"""Whole jobs in which processes are killed or frozen: the others go on, and every sum is right.

Each test checks every sum of every worker against what went in and its receipt, that no two members
ended a round differently, the exit code, and that no process is left. Four workers, 1 MB tensors.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from job_runs import what_is_missing
from kill_job import KillJob
from processes import LIMIT_S, evicting

MISSING = what_is_missing("numpy")
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"byteps and numpy are not installed in this Python: {MISSING}"
)

ALL = [0, 1, 2, 3]
Start = Callable[..., KillJob]


@pytest.fixture
def start(tmp_path: Path, request: pytest.FixtureRequest):
    """Starts a job that has done some rounds; ends it if the test does not."""
    jobs = []

    def make(servers: int, *options: str, nbytes: int = 1 << 20, evicts: bool = False) -> KillJob:
        told = evicting() if evicts else evicting(round(LIMIT_S * 1000))
        job = KillJob(tmp_path, nbytes, 4, servers, options, told)
        jobs.append(job)
        job.warm_up()
        # Any instant of a round.
        job.run_for(random.Random(request.node.name).uniform(0, 0.05))
        return job

    yield make
    for job in jobs:
        job.__exit__(None, None, None)


def check_end(job: KillJob, code: int = 0) -> None:
    """Stop the workers; see that all was in order."""
    ended = job.stop()
    assert ended == code, job.describe()
    assert "the workers are done, but not" not in job.err, job.describe()
    check_sums(job)


def check_sums(job: KillJob) -> None:
    assert job.wrong_sums() == [], job.describe()
    assert job.disagreements() == [], job.describe()
    assert job.gaps() == [], job.describe()
    assert job.leftovers() == {}


def last_receipts(job: KillJob, ranks: list[int]) -> list[list[int]]:
    return [job.logs[rank].rounds[-1].receipt for rank in ranks]


def all_receipts(job: KillJob) -> set[tuple[int, ...]]:
    return {tuple(entry.receipt) for log in job.logs.values() for entry in log.rounds}


def test_nothing_happens(start: Start) -> None:
    """Or the checks below would prove nothing."""
    job = start(3)
    check_end(job)
    assert all_receipts(job) == {tuple(ALL)}
    assert len({len(log.rounds) for log in job.logs.values()}) == 1
    assert job.messages() == []


@pytest.mark.parametrize(("servers", "victim"), [(2, 3), (4, 0)])
def test_a_worker_is_killed(start: Start, servers, victim) -> None:
    job = start(servers, "--min-np", "3")
    rest = [rank for rank in ALL if rank != victim]
    moment = job.send(f"worker {victim}", signal.SIGKILL)
    job.go_on(rest, moment, rounds=5)
    # Now: who is last to leave is alone in the end.
    assert job.logs[rest[0]].rounds[-1].members == rest
    job.wait_for_message("going on with 3 workers")
    check_end(job)
    assert last_receipts(job, rest) == [rest] * 3
    assert job.messages() == [
        f"worker {victim} was killed by signal 9 (SIGKILL); going on with 3 workers",
        f"ended with 3 of 4 workers; lost: worker {victim}",
    ]


@pytest.mark.parametrize("between", [0, 3])
def test_two_workers_are_killed(start: Start, between) -> None:
    job = start(2, "--min-np", "2")
    moment = job.send("worker 1", signal.SIGKILL)
    if between:
        job.go_on([0, 2, 3], moment, between)
    moment = job.send("worker 2", signal.SIGKILL)
    job.go_on([0, 3], moment, rounds=5)
    check_end(job)
    assert last_receipts(job, [0, 3]) == [[0, 3]] * 2


def test_without_leave_a_killed_worker_ends_the_job_by_name(start: Start) -> None:
    job = start(2)
    job.send("worker 2", signal.SIGKILL)
    assert job.wait_for_end() == 128 + signal.SIGKILL, job.describe()
    assert "worker 2 was killed by signal 9 (SIGKILL); ending the job" in job.err
    check_sums(job)


@pytest.mark.parametrize(("servers", "victim"), [(2, 1), (3, 0)])
def test_a_server_is_killed_and_started_again(start: Start, servers, victim) -> None:
    job = start(servers)
    old = job.process_of(f"server {victim}")
    moment = job.send(f"server {victim}", signal.SIGKILL)
    job.wait_for_restart(f"server {victim}", old)
    job.go_on(ALL, moment, rounds=20)
    check_end(job)
    assert all_receipts(job) == {tuple(ALL)}
    assert job.messages() == [
        f"server {victim} was killed by signal 9 (SIGKILL); restarting it (1 of 3)"
    ]


def test_the_only_server_is_killed_and_started_again(start: Start) -> None:
    job = start(1)
    moment = job.send("server 0", signal.SIGKILL)
    job.go_on(ALL, moment, rounds=5)
    check_end(job)
    assert all_receipts(job) == {tuple(ALL)}


def test_two_servers_are_killed_and_not_started_again(start: Start) -> None:
    job = start(4, "--restart", "0")
    moment = job.send("server 3", signal.SIGKILL)
    job.go_on(ALL, moment)
    moment = job.send("server 1", signal.SIGKILL)
    job.go_on(ALL, moment, rounds=5)
    job.wait_for_message("going on with 2 servers")
    check_end(job)
    assert all_receipts(job) == {tuple(ALL)}
    *losses, last = job.messages()
    words = [text.split("; ") for text in losses]
    assert [after for _, after in words] == ["going on with 3 servers", "going on with 2 servers"]
    assert last == "ended with 2 of 4 servers; lost: server 1, server 3"
    assert sorted(text for text, _ in words) == [
        f"server {number} was killed by signal 9 (SIGKILL)" for number in (1, 3)
    ]


def test_a_large_tensor_survives_a_server(start: Start) -> None:
    job = start(2, "--restart", "0", nbytes=16 << 20)
    moment = job.send("server 0", signal.SIGKILL)
    job.go_on(ALL, moment)
    check_end(job)
    assert all_receipts(job) == {tuple(ALL)}


def test_the_scheduler_is_killed_and_the_next_one_does_its_work(start: Start) -> None:
    job = start(2, "--min-np", "3")
    old = job.process_of("scheduler")
    moment = job.send("scheduler", signal.SIGKILL)
    job.go_on(ALL, moment, rounds=5)
    job.wait_for_restart("scheduler", old)
    assert all_receipts(job) == {tuple(ALL)}
    moment = job.send("worker 0", signal.SIGKILL)
    job.go_on([1, 2, 3], moment, rounds=5)
    check_end(job)
    assert last_receipts(job, [1, 2, 3]) == [[1, 2, 3]] * 3


@pytest.mark.parametrize("other", ["server 1", "worker 3"])
def test_the_scheduler_dies_together_with_another_process(start: Start, other) -> None:
    job = start(3, "--min-np", "3")
    job.send("scheduler", signal.SIGKILL)
    moment = job.send(other, signal.SIGKILL)
    job.go_on([0, 1, 2], moment, rounds=5)
    check_end(job)


def test_a_server_and_then_a_worker_are_killed(start: Start) -> None:
    job = start(3, "--min-np", "3")
    job.send("server 2", signal.SIGKILL)
    moment = job.send("worker 1", signal.SIGKILL)
    job.go_on([0, 2, 3], moment, rounds=5)
    check_end(job)
    assert last_receipts(job, [0, 2, 3]) == [[0, 2, 3]] * 3


def test_a_frozen_server_is_fenced_and_joins_again(start: Start) -> None:
    job = start(3, evicts=True)
    moment = job.send("server 1", signal.SIGSTOP)
    job.go_on(ALL, moment, rounds=5)
    process = job.process_of("server 1")
    job.send("server 1", signal.SIGCONT)
    job.wait(lambda: "joining again (1 of at most 5" in job.err, "the server that was frozen")
    moment = job.send("server 0", signal.SIGKILL)
    job.go_on(ALL, moment, rounds=5)
    assert job.process_of("server 1") == process
    check_end(job)
    assert all_receipts(job) == {tuple(ALL)}
    assert "the job goes on without" in job.err, job.err
    assert job.messages() == [
        "server 0 was killed by signal 9 (SIGKILL); restarting it (1 of 3)"
    ], job.describe()


def test_a_frozen_worker_is_left_behind_and_fenced(start: Start) -> None:
    job = start(2, "--min-np", "3", evicts=True)
    moment = job.send("worker 2", signal.SIGSTOP)
    job.go_on([0, 1, 3], moment, rounds=5)
    job.send("worker 2", signal.SIGCONT)
    job.wait(lambda: bool(job.logs[2].error), "the error of the worker that was frozen")
    assert job.logs[2].error == "EvictedError", job.describe()
    check_end(job)
    assert last_receipts(job, [0, 1, 3]) == [[0, 1, 3]] * 3
