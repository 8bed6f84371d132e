"""Whole jobs whose workers reach the servers of their own host through shared memory."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import job_runs
import pytest
import torch_jobs
from job_runs import COLD_PYTHON, job, process_of
from processes import contract, finish, start_role, wait_for_line, wait_until
from rank_programs import rank_program
from shapes import FULL

plain_environment = job_runs.environment
pytestmark = torch_jobs.needs_torch

REACHED = "reached through shared memory: server 0, 1"
INSTEAD = "is on this host, but this worker reaches it through TCP, not through shared memory"
ESTABLISHED = "01"


@pytest.fixture
def environment(plain_environment) -> dict[str, str]:
    """Return the environment of a job in which each worker has connections of its own."""
    return {**plain_environment, "BYTEPS_LOCAL_REDUCE": "0"}


def sockets_of(process: int) -> set[str]:
    """Return the inodes of the sockets that a process has open."""
    found = set()
    for entry in Path(f"/proc/{process}/fd").iterdir():
        try:
            name = str(entry.readlink())
        except OSError:
            continue
        if name.startswith("socket:["):
            found.add(name.removeprefix("socket:[").removesuffix("]"))
    return found


def tcp_connections(process: int) -> int:
    own = sockets_of(process)
    rows = []
    for family in ("tcp", "tcp6"):
        rows += Path(f"/proc/{process}/net/{family}").read_text().splitlines()[1:]
    return sum(fields[3] == ESTABLISHED and fields[9] in own for fields in map(str.split, rows))


@pytest.mark.parametrize("tls", ["0", *["1"] * FULL])
def test_every_operation(environment, tls) -> None:
    told = {**environment, "BYTEPS_LOG_LEVEL": "info", "BYTEPS_TLS": tls}
    code, out, err = finish(job(told, "operations", 3, 2))
    assert code == 0, out + err
    assert out.count("all right") == 3
    assert (out + err).count(REACHED) >= 3, out + err
    assert INSTEAD not in out + err


def test_every_operation_through_tcp(environment) -> None:
    told = {**environment, "BYTEPS_LOG_LEVEL": "info", "BYTEPS_SHARED_LINKS": "0"}
    code, out, err = finish(job(told, "operations", 3, 2))
    assert code == 0, out + err
    assert "shared memory" not in out + err


def test_of_the_workers_that_are_one_member_the_carrier_reaches_them(environment) -> None:
    told = {**environment, "BYTEPS_LOG_LEVEL": "info", "BYTEPS_LOCAL_REDUCE": "1"}
    code, out, err = finish(job(told, "operations", 3, 2))
    assert code == 0, out + err
    assert REACHED in out + err
    assert INSTEAD not in out + err


@pytest.mark.parametrize(("shared", "connections"), [("1", 1), ("0", 3)])
def test_a_worker_has_no_tcp_connection_to_a_server_of_its_host(
    environment, shared, connections
) -> None:
    process = job(
        {**environment, "BYTEPS_SHARED_LINKS": shared},
        "steps",
        2,
        2,
        "--restart",
        "0",
        python=COLD_PYTHON,
    )
    for _ in range(2):
        wait_for_line(process, "stepping")
    worker = process_of(environment, "worker 1")
    wait_until(lambda: tcp_connections(worker) == connections)  # one may still be ending
    os.kill(process_of(environment, "worker 1"), signal.SIGKILL)
    code, _, err = finish(process)
    assert code == 128 + signal.SIGKILL, err
    assert "worker 1 was killed by signal 9 (SIGKILL)" in err


def test_a_server_that_is_started_again_is_reached_in_the_same_way(environment) -> None:
    process = job({**environment, "BYTEPS_LOG_LEVEL": "info"}, "steps", 1, 2, python=COLD_PYTHON)
    wait_for_line(process, REACHED)
    wait_for_line(process, "stepping")
    os.kill(process_of(environment, "server 0"), signal.SIGKILL)
    wait_for_line(process, REACHED)
    worker = process_of(environment, "worker 0")
    wait_until(lambda: tcp_connections(worker) == 1)
    os.kill(process.pid, signal.SIGTERM)
    finish(process)


def test_a_server_without_it_is_reached_through_tcp_and_the_log_says_so(environment) -> None:
    common = {**environment, **contract(1, 1), "BYTEPS_FORCE_DISTRIBUTED": "1"}
    services = [
        start_role(common, "scheduler"),
        start_role(common, "server", BYTEPS_SHARED_LINKS="0"),
    ]
    program = (sys.executable, rank_program("operations"))
    worker = start_role(common, "worker", *program, DMLC_WORKER_ID="0")
    code, out, _ = finish(worker)
    assert code == 0, out
    assert INSTEAD in out
    for service in services:
        assert finish(service)[0] == 0
