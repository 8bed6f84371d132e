"""Who gets into a job, and in which jobs a rank runs what another one has sent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import job_runs
import pytest
import torch_jobs
from processes import contract, finish, wait_for_line
from rank_programs import rank_program

environment = job_runs.environment
pytestmark = torch_jobs.needs_torch

PROGRAM = rank_program("strangers")
# An address of this machine for those that connect, and all of them for those that listen: not a
# loopback address, so the job is as open as one on several machines.
EVERYWHERE = "0.0.0.0"
OPEN = {"DMLC_PS_ROOT_URI": EVERYWHERE, "DMLC_NODE_HOST": "127.0.0.1"}


class Job:
    """A job of two workers and a server by the bare contract, each process started by itself."""

    def __init__(self, environment: Mapping[str, str], **told: str) -> None:
        self.told = {
            **environment,
            **contract(2, 1),
            **told,
        }

    def start(self, role: str, *arguments: str, **told: str) -> subprocess.Popen[str]:
        script = f"from byteps.common.job.executables import exec_program; exec_program('{role}')"
        worker = [*job_runs.warm_python(), PROGRAM]
        command = worker if role == "worker" else [sys.executable, "-c", script]
        return subprocess.Popen(
            [*command, *arguments],
            env={**self.told, "DMLC_ROLE": role, **told},
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def services(self) -> list[subprocess.Popen[str]]:
        return [self.start("scheduler"), self.start("server")]

    def workers(self, **told: str) -> list[subprocess.Popen[str]]:
        return [self.start("worker", DMLC_WORKER_ID=str(n), **told) for n in range(2)]


def ends(processes: list[subprocess.Popen[str]]) -> list[str]:
    """Return what processes said that had to end in order."""
    said = []
    for process in processes:
        code, out, _ = finish(process)
        assert code == 0, out
        said.append(out)
    return said


@pytest.mark.parametrize(
    ("told", "how"),
    [
        ({}, "taken"),
        ({"BYTEPS_REQUIRE_SECRET": "1"}, "taken"),
        (OPEN, "refused"),
        ({**OPEN, "BYTEPS_ALLOW_OBJECTS": "1"}, "taken"),
        ({**OPEN, "BYTEPS_JOB_SECRET": "of this job"}, "taken"),
    ],
    ids=["one machine", "one machine, proof required", "open", "open, allowed", "secret"],
)
def test_objects_are_taken_where_strangers_cannot_join(environment, told, how) -> None:
    job = Job(environment, **told)
    services, workers = job.services(), job.workers()
    for rank, out in enumerate(ends(workers)):
        assert f"objects of rank {rank}: {how}" in out
    ends(services)


def test_workers_that_differ_about_objects_are_no_job(environment) -> None:
    job = Job(environment, **OPEN)
    services = job.services()
    first = job.start("worker", DMLC_WORKER_ID="0")
    wait_for_line(services[0], "missing worker 1")
    second = job.start("worker", DMLC_WORKER_ID="1", BYTEPS_ALLOW_OBJECTS="1")
    code, out, _ = finish(second)
    assert code == 3, out
    assert "your rank takes Python objects from other ranks, the others do not" in out
    assert "BYTEPS_ALLOW_OBJECTS" in out
    # The right one may still come.
    ends([first, job.start("worker", DMLC_WORKER_ID="1"), *services])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can pass for another user")
def test_another_user_of_the_machine_does_not_get_in(environment) -> None:
    job = Job(environment)
    services = job.services()
    first = job.start("worker", DMLC_WORKER_ID="0")
    stranger = job.start("worker", "as-nobody", DMLC_WORKER_ID="1")
    code, out, _ = finish(stranger)
    assert code == 3, out
    assert "not in the job: RefusedError" in out
    assert "you are no process of the job's user on its machine" in out
    assert "set the same BYTEPS_JOB_SECRET" in out
    # It has taken nobody's place.
    workers = [first, job.start("worker", DMLC_WORKER_ID="1")]
    for rank, said in enumerate(ends(workers)):
        assert f"objects of rank {rank}: taken" in said
    ends(services)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can pass for another user")
def test_with_a_secret_the_user_does_not_matter(environment) -> None:
    job = Job(environment, BYTEPS_JOB_SECRET="of this job")
    services = job.services()
    first = job.start("worker", DMLC_WORKER_ID="0")
    second = job.start("worker", "as-nobody", DMLC_WORKER_ID="1")
    for rank, said in enumerate(ends([first, second])):
        assert f"objects of rank {rank}: taken" in said
    ends(services)
