"""Whole jobs of real processes in which the workers of each machine are one member."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import job_runs
import pytest
import test_jobs
from job_runs import COLD_PYTHON, JOBS, warm_python
from processes import TOKEN_VARIABLE, carriers, finish, free_ports, wait_for_line
from shapes import FULL

environment = job_runs.environment
pytestmark = test_jobs.pytestmark


@contextmanager
def machines(
    environment,
    name: str,
    count: int,
    ranks: int,
    servers: int = 1,
    arguments: tuple[str, ...] = (),
    python: Sequence[str] = (),
    **options: str,
) -> Iterator[list[subprocess.Popen[str]]]:
    """Start services, and a launcher for each machine; yields these launchers.

    The machines are on one host, and know of each other only what the contract says.
    """
    common = {
        **environment,
        "DMLC_NUM_WORKER": str(count),
        "DMLC_NUM_SERVER": str(servers),
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_PS_ROOT_PORT": str(free_ports(1)[0]),
        "BYTEPS_LOCAL_SIZE": str(ranks),
        **options,
    }

    def start(role: str, *command: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "byteps.cli.bpslaunch", *command],
            env={**common, "DMLC_ROLE": role, **more},
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    services = [start("scheduler"), *(start("server") for _ in range(servers))]
    script = (*(python or warm_python()), str(JOBS / f"{name}.py"), *arguments)
    started = [start("worker", *script, DMLC_WORKER_ID=str(i)) for i in range(count)]
    try:
        yield started
    finally:
        for process in [*started, *services]:
            if process.poll() is None:
                process.terminate()
            finish(process)


def worker_of(token: str, machine: int, rank: int) -> int:
    for process in carriers(token):
        try:
            entries = Path(f"/proc/{process}/environ").read_bytes().decode().split("\0")
        except OSError:
            continue
        variables = dict(entry.split("=", 1) for entry in entries if "=" in entry)
        found = (variables.get("DMLC_WORKER_ID"), variables.get("BYTEPS_LOCAL_RANK"))
        if variables.get("DMLC_ROLE") == "worker" and found == (str(machine), str(rank)):
            return process
    raise AssertionError(f"there is no worker {rank} on machine {machine}")


@pytest.mark.parametrize("name", ["operations", "mismatches", *["orders", "training"] * FULL])
def test_all_right(environment, name) -> None:
    with machines(environment, name, 2, 2) as started:
        told = [finish(one) for one in started]
    for code, out, _ in told:
        assert code == 0, out
        assert out.count("all right") == 2, out


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({}, "the 2 workers of this machine are one member of the job"),
        (
            {"BYTEPS_MIN_WORKERS": "2"},
            "each worker of this machine is a member of the job by itself: min_workers=2",
        ),
    ],
    ids=["one", "apart"],
)
def test_each_machine_says_once_what_it_is(environment, options, line) -> None:
    told = {**options, "BYTEPS_LOG_LEVEL": "info"}
    with machines(environment, "small", 2, 2, **told) as started:
        ends = [finish(one) for one in started]
    for code, out, _ in ends:
        assert code == 0, out
        assert out.count(line) == 1, out


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_worker_ends_its_machine_by_name_and_leaves_nothing(environment, rank) -> None:
    with machines(environment, "steps", 2, 2, python=COLD_PYTHON) as started:
        for one in started:
            wait_for_line(one, "stepping")
            wait_for_line(one, "stepping")
        os.kill(worker_of(environment[TOKEN_VARIABLE], 1, rank), signal.SIGKILL)
        told = [finish(one) for one in started]
    assert all(code != 0 for code, _, _ in told)
    # To other machines the rank may be named that ended because of it.
    assert "worker 2" in told[0][1] or "worker 3" in told[0][1]
    # Its launcher ends the other rank at once, which may be before that one can say why.
    assert f"local rank {rank} was killed by signal 9" in told[1][1]


def test_a_rank_that_does_not_come_is_named(environment) -> None:
    limit = {"BYTEPS_OPERATION_TIMEOUT": "3"}
    with machines(environment, "stalling", 2, 2, arguments=("3", "60"), **limit) as started:
        told = [finish(one) for one in started]
    for code, out, _ in told:
        assert code != 0, out
        assert "has waited longer than the limit" in out
    assert re.search(r"no part of rank (\(2, 3\)|3)", told[0][1]), told[0][1]
    assert re.search(r"(of this machine rank 3|no part of rank 3)", told[1][1]), told[1][1]
