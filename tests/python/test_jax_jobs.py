"""Whole jobs with the real JAX."""

from __future__ import annotations

import importlib.util
import os
import signal

import pytest
import test_jobs
from processes import finish, wait_for_line
from shapes import shapes
from test_jobs import MISSING, expect_all_right, expect_all_right_alone, job, process_of

environment = test_jobs.environment

pytestmark = pytest.mark.skipif(
    bool(MISSING) or importlib.util.find_spec("jax") is None,
    reason=f"byteps or jax is not installed in this Python: {MISSING}",
)


@shapes((3, 2))
def test_every_operation_of_jax(environment, workers, servers) -> None:
    expect_all_right(environment, "jax_operations", workers, servers)


def test_one_process_with_jax(environment) -> None:
    expect_all_right_alone(environment, "jax_operations")


@shapes((2, 1))
def test_training_with_jax_equals_training_alone(environment, workers, servers) -> None:
    expect_all_right(environment, "jax_training", workers, servers)


def test_jax_goes_on_when_a_server_is_killed(environment) -> None:
    process = job(environment, "jax_steps", 2, 2)
    for _ in range(2):
        wait_for_line(process, "stepping")
    os.kill(process_of(environment, "server 0"), signal.SIGKILL)
    code, out, err = finish(process)
    assert code == 0, out + err
    assert out.count("all right") == 2
