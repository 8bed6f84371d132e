"""Jobs over RDMA, with the stand-in for libibverbs (tests/verbs_standin/) in place of a card.

Each process has a stand-in of its own, and they reach each other through sockets of this host. A
process that ends in order leaves a line with what its stand-in has counted.
"""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import pytest
from job_runs import REPOSITORY
from processes import contract, finish, start_role

DEVICE = "rdma standin0"
# The hosts of a job that is spread over addresses of the loopback.
SERVER_HOSTS = ("127.0.0.2", "127.0.0.3")
_LIBRARY = REPOSITORY / "build/tests/verbs_standin/libverbs_standin.so"

needs_standin = pytest.mark.skipif(
    not _LIBRARY.exists(), reason="the stand-in for libibverbs is not built"
)


def over_rdma(folder: Path) -> dict[str, str]:
    """Return the variables of a job whose workers and servers must use RDMA."""
    return {
        "BYTEPS_TRANSPORT": "rdma",
        "BYTEPS_RDMA_LIBRARY": str(_LIBRARY),
        "BYTEPS_SHARED_LINKS": "0",
        "BYTEPS_LOCAL_REDUCE": "0",
        "BYTEPS_LOG_LEVEL": "info",
        # On a busy machine a process stands still, and lives. Its kernel confirms nothing in its
        # place, other than over TCP.
        "BYTEPS_LINK_TIMEOUT_MS": "60000",
        "BYTEPS_VERBS_STANDIN_GIDS": ",".join(("127.0.0.1", *SERVER_HOSTS)),
        "BYTEPS_VERBS_STANDIN_COUNTS": str(folder / "counts"),
    }


def over_tcp() -> dict[str, str]:
    """Return the variables of the same job over TCP."""
    return {"BYTEPS_TRANSPORT": "tcp", "BYTEPS_SHARED_LINKS": "0", "BYTEPS_LOCAL_REDUCE": "0"}


def counts(folder: Path) -> list[dict[str, int]]:
    """Return what the stand-in of each process that has ended in order has counted."""
    file = folder / "counts"
    lines = file.read_text().splitlines() if file.exists() else []
    return [{name: int(n) for name, n in re.findall(r"(\w+)=(\d+)", line)} for line in lines]


def expect_no_complaint(folder: Path, processes: int) -> int:
    """See that so many processes made no mistake with the device; return the bytes that came."""
    found = counts(folder)
    assert len(found) >= processes, found
    for one in found:
        assert (one["complaints"], one["not_ready"], one["open"]) == (0, 0, 0), found
    return sum(one["bytes"] for one in found)


def connections(port: int) -> dict[int, list[str]]:
    """Return how the connections of each server travel, as the job's status port says it."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}/status.json", timeout=5) as answer:
        members = json.load(answer)["members"]
    servers = [one for one in members if one["role"] == "server"]
    return {one["index"]: [way["over"] for way in one.get("connections", [])] for one in servers}


def run_spread(environment: dict[str, str], *command: str) -> list[str]:
    """Run a command as two workers, with two servers that have addresses of their own.

    Returns what the workers have printed.
    """
    common = {**environment, **contract(2, len(SERVER_HOSTS))}
    services = [start_role(common, "scheduler")]
    services += [start_role(common, "server", DMLC_NODE_HOST=one) for one in SERVER_HOSTS]
    workers = [start_role(common, "worker", *command, DMLC_WORKER_ID=str(i)) for i in range(2)]
    try:
        outputs = [finish(worker)[:2] for worker in workers]
    finally:
        for process in [*workers, *services]:
            if process.poll() is None and any(worker.returncode for worker in workers):
                process.terminate()
        told = [finish(service) for service in services]
    assert [code for code, _ in outputs] == [0, 0], (outputs, told)
    assert [code for code, _, _ in told] == [0, 0, 0], told
    return [out for _, out in outputs]
