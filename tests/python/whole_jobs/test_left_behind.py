"""Workers of a machine are killed, any of them at once: nothing of what they shared is left."""

from __future__ import annotations

import contextlib
import re
import signal
from pathlib import Path

import job_runs
import pytest
import torch_jobs
from job_runs import machines
from processes import (
    TOKEN_VARIABLE,
    carriers,
    finish,
    kill_together,
    wait_for_line,
    wait_until_gone,
)
from test_local_jobs import local_job, workers_of
from test_machines import worker_of

environment = job_runs.environment
pytestmark = torch_jobs.needs_torch

MEMORY = re.compile(r"^\S+ \S+ \S+ (\S+ \d+) +/memfd:", re.MULTILINE)
SOCKET = re.compile(r"socket:\[(\d+)\]")


def shared_memory_of(process: int) -> set[str]:
    """Return device and inode of each piece of memory without a name that a process maps."""
    try:
        return set(MEMORY.findall(Path(f"/proc/{process}/maps").read_text()))
    except OSError:
        return set()


def unix_sockets_of(process: int) -> set[str]:
    found = set()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed just now
            named = SOCKET.match(str(descriptor.readlink()))
            found |= {named.group(1)} if named else set()
    return found & unix_sockets()


def unix_sockets() -> set[str]:
    """Return the inodes of all Unix sockets of this network namespace."""
    lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    return {line.split()[6] for line in lines}


def kill_and_look(workers: list[int], victims: list[int]) -> tuple[set[str], set[str]]:
    """Kill some of the workers; return the memory and the sockets of all of them."""
    memory = set().union(*(shared_memory_of(one) for one in workers))
    sockets = set().union(*(unix_sockets_of(one) for one in workers))
    kill_together(victims)
    return memory, sockets


def assert_nothing_is_left(token: str, memory: set[str], sockets: set[str]) -> None:
    assert wait_until_gone(carriers(token)) == {}
    everybody = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    assert memory
    assert not memory & set().union(*(shared_memory_of(one) for one in everybody))
    assert not sockets & unix_sockets()


@pytest.mark.parametrize("killed", [[0], [2], [0, 1], [1, 2], [0, 1, 2]])
def test_without_servers(environment, killed) -> None:
    process = local_job(environment, "steps", 3)
    for _ in range(3):
        wait_for_line(process, "stepping")
    token = environment[TOKEN_VARIABLE]
    workers = workers_of(token)
    left = kill_and_look(list(workers.values()), [workers[str(rank)] for rank in killed])
    code, _, err = finish(process)
    assert code == 128 + signal.SIGKILL, err
    assert_nothing_is_left(token, *left)


@pytest.mark.parametrize("killed", [[(0, 0)], [(1, 1)], [(0, 1), (1, 0)]])
def test_with_servers(environment, killed) -> None:
    token = environment[TOKEN_VARIABLE]
    with machines(environment, "steps", (2, 2), python=job_runs.COLD_PYTHON) as started:
        for one in started:
            for _ in range(2):
                wait_for_line(one, "stepping")
        workers = [worker_of(token, machine, rank) for machine in (0, 1) for rank in (0, 1)]
        left = kill_and_look(workers, [worker_of(token, *victim) for victim in killed])
        for one in started:
            assert finish(one)[0] != 0
    assert_nothing_is_left(token, *left)
