"""Whole jobs: workers, servers and the scheduler of the installed package."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import job_runs
import pytest
import torch_jobs
from job_runs import (
    COLD_PYTHON,
    expect_all_right,
    expect_all_right_alone,
    job,
    process_of,
)
from processes import finish, wait_for_line
from shapes import FULL, shapes

environment = job_runs.environment

pytestmark = torch_jobs.needs_torch


@shapes((3, 2))
def test_every_operation(environment, workers, servers) -> None:
    expect_all_right(environment, "operations", workers, servers)


@shapes((3, 2))
def test_every_operation_on_arrays(environment, workers, servers) -> None:
    expect_all_right(environment, "arrays", workers, servers)


# A difference between what all ranks know is told after half a second: this takes its time.
@shapes((3, 2))
def test_every_mismatch(environment, workers, servers) -> None:
    expect_all_right(environment, "mismatches", workers, servers)


@shapes((3, 2))
def test_every_order_of_calls(environment, workers, servers) -> None:
    expect_all_right(environment, "orders", workers, servers)


SETTINGS = {
    "BYTEPS_PARTITION_BYTES": "4096",
    "BYTEPS_SERVER_SHARDS": "3",
    "BYTEPS_CREDIT_BYTES": "65536",
    "BYTEPS_TLS": "1",
}


# All at once; each alone where there is time.
@pytest.mark.parametrize(
    "names", [tuple(SETTINGS), *([(name,) for name in SETTINGS] * FULL)], ids=",".join
)
def test_every_operation_with_other_settings(environment, names) -> None:
    settings = {name: SETTINGS[name] for name in names}
    expect_all_right({**environment, **settings}, "operations", 3, 2)


@shapes((3, 2))
def test_training_equals_training_alone(environment, workers, servers) -> None:
    code, out, err = finish(job(environment, "training", workers, servers))
    assert code == 0, out + err
    assert out.count("all right") == workers


@pytest.mark.parametrize("job_name", ["operations", *["mismatches", "orders"] * FULL])
def test_one_process_without_a_launcher(environment, job_name) -> None:
    expect_all_right_alone(environment, job_name)


@pytest.mark.parametrize("victim", ["worker 1", "server 0", "scheduler"])
def test_a_killed_process_ends_the_job_by_name(environment, victim) -> None:
    process = job(environment, "steps", 2, 1, "--restart", "0", python=COLD_PYTHON)
    for _ in range(2):
        wait_for_line(process, "stepping")
    os.kill(process_of(environment, victim), signal.SIGKILL)
    code, _, err = finish(process)
    assert code == 128 + signal.SIGKILL, err
    assert f"{victim} was killed by signal 9 (SIGKILL)" in err


def test_a_server_without_memory_says_so_and_its_successor_goes_on(environment, tmp_path) -> None:
    # A worker pushes alone: the workers of a machine that sum first would wait for each other.
    alone = {"BYTEPS_CREDIT_BYTES": str(1 << 30), "BYTEPS_LOCAL_REDUCE": "0"}
    large = {**environment, **alone}
    process = job(large, "memory", 2, 1, arguments=(str(tmp_path),))
    for _ in range(2):
        wait_for_line(process, "ready")
    server = process_of(environment, "server 0")
    held = int(Path(f"/proc/{server}/statm").read_text().split()[0]) * resource.getpagesize()
    resource.prlimit(server, resource.RLIMIT_AS, (held + (32 << 20), resource.RLIM_INFINITY))
    (tmp_path / "push").touch()
    assert process.stderr is not None
    told = ""
    for line in process.stderr:
        told += line
        if "restarting it" in line:
            break
    assert "has no memory for what the workers push" in told
    (tmp_path / "join").touch()
    code, out, err = finish(process)
    assert code == 0, told + out + err
    assert out.count("all right") == 2
