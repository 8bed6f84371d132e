"""Whole jobs on one machine without servers: the workers share memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

import job_runs
import pytest
from job_runs import COLD_PYTHON, warm_python
from processes import (
    TOKEN_VARIABLE,
    carriers,
    environment_of,
    finish,
    free_ports,
    started_with,
    wait_for_line,
)
from rank_programs import rank_program
from shapes import FULL
from torch_jobs import MISSING

environment = job_runs.environment

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"byteps and torch are not installed in this Python: {MISSING}"
)


def local_job(
    environment, name: str, workers: int, *options: str, python: Sequence[str] = COLD_PYTHON
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "byteps.cli", "run", "-np", str(workers), *options]
    return subprocess.Popen(
        [*command, *python, rank_program(name)],
        env=environment,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("options", "sums"),
    [
        ({}, "floats 0.0, halves 6801"),
        ({"BYTEPS_SAME_BITS": "1", "BYTEPS_SUM_GROUP": "3"}, "floats 1.0, halves 6800"),
    ],
    ids=["unset", "set"],
)
def test_the_options_of_sums_reach_a_job_without_servers(environment, options, sums) -> None:
    code, out, err = finish(local_job({**environment, **options}, "ordered_sums", 4))
    assert code == 0, out + err
    assert out.count(sums) == 4, out + err


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        ("operations", 3),
        ("orders", 3),
        ("shared_tensors", 3),
        *[
            ("operations", 4),
            ("training_ways", 2),
            ("arrays", 3),
            ("mismatches", 3),
            ("collectives", 3),
            ("layers", 3),
            ("shared_tensors", 1),
            ("shared_tensors", 2),
        ]
        * FULL,
    ],
)
def test_all_right_without_servers(environment, name, workers) -> None:
    settings = {**environment, "BYTEPS_OPERATION_TIMEOUT": "30"} if name == "collectives" else None
    code, out, err = finish(local_job(settings or environment, name, workers, python=warm_python()))
    assert code == 0, out + err
    for rank in range(workers):
        assert f"[worker {rank}] all right {rank}/{workers}" in out
    if workers > 1:  # for one alone there is a server, which may say for whom it waits
        assert "[server" not in out + err
        assert "[scheduler" not in out + err


def test_training_equals_training_alone(environment) -> None:
    code, out, err = finish(local_job(environment, "training", 3, python=warm_python()))
    assert code == 0, out + err
    assert out.count("all right") == 3


def test_only_workers_run(environment) -> None:
    process = local_job(environment, "steps", 2)
    wait_for_line(process, "stepping")
    token = environment[TOKEN_VARIABLE]
    assert sorted(workers_of(token)) == ["0", "1"]
    assert {role_of(one) for one in carriers(token)} - {""} == {"worker"}
    process.send_signal(signal.SIGTERM)
    finish(process)


def role_of(process: int) -> str:
    return environment_of(process).get("DMLC_ROLE", "")


def workers_of(token: str) -> dict[str, int]:
    found = started_with(token, DMLC_ROLE="worker")
    return {environment_of(process)["BYTEPS_LOCAL_RANK"]: process for process in found}


def test_a_killed_worker_ends_the_job_by_name(environment) -> None:
    process = local_job(environment, "steps", 3)
    for _ in range(3):
        wait_for_line(process, "stepping")
    os.kill(workers_of(environment[TOKEN_VARIABLE])["1"], signal.SIGKILL)
    code, _, err = finish(process)
    assert code == 128 + signal.SIGKILL, err
    assert "worker 1 was killed by signal 9 (SIGKILL)" in err


def test_a_worker_hears_who_was_killed(environment) -> None:
    process = local_job(environment, "stubborn_steps", 3, "--grace", "60")
    for _ in range(3):
        wait_for_line(process, "stepping")
    os.kill(workers_of(environment[TOKEN_VARIABLE])["0"], signal.SIGKILL)
    _, _, err = finish(process)
    assert "worker 0 was lost: its process has ended" in err


def test_a_worker_that_is_killed_while_others_read_its_tensor(environment) -> None:
    process = local_job(environment, "shared_steps", 3, "--grace", "60")
    for _ in range(3):
        wait_for_line(process, "stepping")
    os.kill(workers_of(environment[TOKEN_VARIABLE])["1"], signal.SIGKILL)
    _, out, err = finish(process)
    assert out.count("lost: worker 1 was lost: its process has ended") == 2, out + err


def test_two_jobs_of_one_user_never_meet(environment) -> None:
    jobs = [local_job(environment, "arrays", 2, python=warm_python()) for _ in range(2)]
    for job in jobs:
        code, out, err = finish(job)
        assert code == 0, out + err


def test_where_the_job_shall_survive_losses_it_has_a_server(environment) -> None:
    process = local_job(environment, "steps", 2, "--min-np", "1")
    wait_for_line(process, "stepping")
    roles = {role_of(one) for one in carriers(environment[TOKEN_VARIABLE])}
    assert {"server", "scheduler", "worker"} <= roles
    process.send_signal(signal.SIGTERM)
    finish(process)


# Told of a job as the bare contract does, and no more.
APART = """
import sys
import torch
import byteps.torch as bps

bps.init()
own = torch.tensor([ord(one) for one in sys.argv[1]])
for step in range(3):
    members = bps.allgather(own, name=f"members {step}")
print("in a job with", "".join(map(chr, members.tolist())))
bps.shutdown()
"""


def test_jobs_with_other_addresses_that_start_crosswise_do_not_meet(environment) -> None:
    ports = dict(zip("ab", free_ports(2), strict=True))

    def start(job: str, rank: int) -> subprocess.Popen[str]:
        told = {
            "DMLC_ROLE": "worker",
            "DMLC_NUM_WORKER": "1",
            "DMLC_NUM_SERVER": "0",
            "DMLC_WORKER_ID": "0",
            "DMLC_PS_ROOT_URI": "127.0.0.1",
            "DMLC_PS_ROOT_PORT": str(ports[job]),
            "BYTEPS_LOCAL_RANK": str(rank),
            "BYTEPS_LOCAL_SIZE": "2",
        }
        return subprocess.Popen(
            [sys.executable, "-c", APART, f"{job}{rank}"],
            env={**environment, **told},
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    # Crosswise: the first two are rank 0 of one job and rank 1 of the other.
    started = [(job, start(job, rank)) for job, rank in [("a", 0), ("b", 1), ("a", 1), ("b", 0)]]
    for job, process in started:
        code, out, err = finish(process)
        assert code == 0, out + err
        assert f"in a job with {job}0{job}1\n" in out
