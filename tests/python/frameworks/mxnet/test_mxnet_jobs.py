"""Whole jobs with the real MXNet."""

from __future__ import annotations

import os
import signal

import job_runs
import pytest
from job_runs import expect_all_right, expect_all_right_alone, job, process_of
from processes import finish, wait_for_line
from shapes import shapes

environment = job_runs.environment


@shapes((2, 1), (3, 2))
def test_every_operation_of_mxnet(environment, workers, servers) -> None:
    expect_all_right(environment, "mxnet_operations", workers, servers)


def test_one_process_with_mxnet(environment) -> None:
    expect_all_right_alone(environment, "mxnet_operations")


@shapes((2, 1))
def test_every_operation_with_an_engine_that_blocks(environment, workers, servers) -> None:
    blocking = {**environment, "MXNET_ENGINE_TYPE": "NaiveEngine"}
    expect_all_right(blocking, "mxnet_operations", workers, servers)


@shapes((2, 1), (3, 1))
def test_training_with_mxnet_equals_training_alone(environment, workers, servers) -> None:
    expect_all_right(environment, "mxnet_training", workers, servers)


@pytest.mark.parametrize("script", ["gluon", "module", "loop"])
def test_scripts_for_horovod_run(environment, script) -> None:
    expect_all_right(environment, f"mxnet_script_{script}", 2, 1)


def test_mxnet_goes_on_when_a_server_is_killed(environment) -> None:
    process = job(environment, "mxnet_steps", 2, 2)
    for _ in range(2):
        wait_for_line(process, "stepping")
    os.kill(process_of(environment, "server 0"), signal.SIGKILL)
    code, out, err = finish(process)
    assert code == 0, out + err
    assert out.count("all right") == 2


def test_a_program_may_end_before_its_last_exchange(environment) -> None:
    code, out, err = finish(job(environment, "mxnet_leaving", 2, 1))
    assert code == 0, out + err
    assert out.count("leaving") == 2
