"""Hosts with two network cards: jobs between network namespaces that two links join."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import job_runs
import pytest
import torch_jobs
from linked_hosts import HOSTS, Links, linked_hosts
from processes import LIMIT_S, finish, start_role, wait_for_line

environment = job_runs.environment
pytestmark = torch_jobs.needs_torch

PROGRAM = """
import os, sys
import numpy as np
import byteps.numpy as bps
bps.init()
bps.push_pull(np.ones(1024, np.float32), name="first", average=False)
print("joined", flush=True)
for line in sys.stdin:
    grown = np.full({count}, bps.rank() + 1, np.float32)
    total = bps.push_pull(grown, name="gradient", average=False)
    assert (total == 3).all()
    print("summed", flush=True)
bps.shutdown()
"""
COUNT = 4_000_000


@pytest.fixture
def links():
    """The hosts, or a skip where none can be made."""
    with linked_hosts("bpsnic") as made:
        yield made


class Job:
    """Two workers on hosts a and b, and a scheduler with a server on host c."""

    def __init__(
        self,
        links: Links,
        environment,
        tmp_path: Path,
        server: dict[str, str] | None = None,
        **options: str,
    ) -> None:
        self.links = links
        self.said = ""
        self.common = {
            **environment,
            "DMLC_NUM_WORKER": "2",
            "DMLC_NUM_SERVER": "1",
            "DMLC_PS_ROOT_URI": "10.90.0.3",
            "DMLC_PS_ROOT_PORT": "9000",
            "BYTEPS_JOB_SECRET": "of this test",
            "BYTEPS_LOG_LEVEL": "info",
            **options,
        }
        program = tmp_path / "program.py"
        program.write_text(PROGRAM.replace("{count}", str(COUNT)))
        self.services = [self.start("c", "scheduler"), self.start("c", "server", **(server or {}))]
        command = (sys.executable, str(program))
        self.workers = [
            self.start(host, "worker", *command, DMLC_WORKER_ID=str(number))
            for number, host in enumerate("ab")
        ]

    def start(self, host: str, role: str, *command: str, **more: str) -> subprocess.Popen[str]:
        inside = ("ip", "netns", "exec", self.links.spaces[host])
        stdin = subprocess.PIPE if command else subprocess.DEVNULL
        return start_role(self.common, role, *command, before=inside, stdin=stdin, **more)

    def wait(self, text: str) -> None:
        for worker in self.workers:
            self.said += wait_for_line(worker, text)

    def exchange(self) -> None:
        for worker in self.workers:
            assert worker.stdin is not None
            worker.stdin.write("\n")
            worker.stdin.flush()
        self.wait("summed")

    def end(self) -> str:
        for process in (*self.workers, *self.services):
            code, out, _ = finish(process)
            self.said += out
            assert code == 0, self.said
        return self.said


def share_of_first(before: list[int], after: list[int]) -> float:
    first, second = (end - begin for begin, end in zip(before, after, strict=True))
    return first / (first + second)


def exchanged(links: Links, job: Job) -> dict[str, float]:
    """Exchange once, and return which part of its bytes each host sent over eth0."""
    before = {host: links.sent(host) for host in HOSTS}
    job.exchange()
    return {host: share_of_first(before[host], links.sent(host)) for host in HOSTS}


def test_both_links_of_each_host_carry_half(links, environment, tmp_path) -> None:
    job = Job(links, environment, tmp_path, BYTEPS_INTERFACES="eth0,eth1")
    job.wait("joined")
    shares = exchanged(links, job)
    said = job.end()
    for host, share in shares.items():
        assert 0.45 < share < 0.55, (host, share, said)
    assert "lanes: 2, nobody has said how fast the link is; eth0 10.90.0.1" in said
    assert "shards: 2, nobody has said" in said
    assert "announcing 10.90.0.3:" in said
    assert " and 10.91.0.3:" in said


def test_one_link_carries_all_without_the_option(links, environment, tmp_path) -> None:
    job = Job(links, environment, tmp_path)
    job.wait("joined")
    shares = exchanged(links, job)
    said = job.end()
    assert all(share > 0.99 for share in shares.values()), (shares, said)


def test_workers_that_name_no_interface_share_those_of_a_server(
    links, environment, tmp_path
) -> None:
    job = Job(links, environment, tmp_path, server={"BYTEPS_INTERFACES": "eth0,eth1"})
    job.wait("joined")
    share = exchanged(links, job)["c"]
    said = job.end()
    assert 0.45 < share < 0.55, said


def test_a_link_that_fails_leaves_its_bytes_to_the_other(links, environment, tmp_path) -> None:
    job = Job(links, environment, tmp_path, BYTEPS_INTERFACES="eth0,eth1")
    job.wait("joined")
    links.ip("-n", links.switch, "link", "set", "b1", "down")
    job.exchange()
    before = links.sent("b")
    job.exchange()
    share = share_of_first(before, links.sent("b"))
    said = job.end()
    assert share > 0.99, said
    assert "10.90.0.3:" in said


def test_an_interface_that_is_not_there_is_named(links, environment) -> None:
    told = {
        **environment,
        "DMLC_NUM_WORKER": "1",
        "DMLC_NUM_SERVER": "1",
        "DMLC_WORKER_ID": "0",
        "DMLC_PS_ROOT_URI": "10.90.0.3",
        "DMLC_PS_ROOT_PORT": "9000",
        "BYTEPS_FORCE_DISTRIBUTED": "1",
        "BYTEPS_INTERFACES": "eth0,eth7",
    }
    command = [sys.executable, "-c", "import byteps.numpy as b; b.init()"]
    ended = subprocess.run(
        command, env=told, cwd="/", capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert ended.returncode != 0
    assert re.search("'eth[07]' has no address that others can use", ended.stderr), ended.stderr
