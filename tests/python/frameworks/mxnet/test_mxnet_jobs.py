"""Whole jobs with the real MXNet."""

from __future__ import annotations

import re

import job_runs
import numpy as np
import pytest
from job_runs import (
    example_and_alone,
    expect_all_right,
    expect_all_right_alone,
    expect_outlives_a_server,
    expect_programs_end,
    expect_same_weights,
    job,
    program_of_page,
)
from processes import finish
from rank_programs import rank_program
from shapes import some_shapes

environment = job_runs.environment


@some_shapes((3, 2))
def test_every_operation_of_mxnet(environment, workers, servers) -> None:
    expect_all_right(environment, "mxnet_operations", workers, servers)


def test_one_process_with_mxnet(environment) -> None:
    expect_all_right_alone(environment, "mxnet_operations")


@some_shapes((2, 1))
def test_every_operation_with_an_engine_that_blocks(environment, workers, servers) -> None:
    blocking = {**environment, "MXNET_ENGINE_TYPE": "NaiveEngine"}
    expect_all_right(blocking, "mxnet_operations", workers, servers)


@some_shapes((2, 1))
def test_training_with_mxnet_equals_training_alone(environment, workers, servers) -> None:
    expect_all_right(environment, "mxnet_training", workers, servers)


def test_mxnet_goes_on_when_a_server_is_killed(environment) -> None:
    expect_outlives_a_server(environment, "mxnet_steps")


def test_a_program_may_end_before_its_last_exchange(environment) -> None:
    code, out, err = finish(job(environment, "mxnet_leaving", 2, 1))
    assert code == 0, out + err
    assert out.count("leaving") == 2


def test_programs_of_users_of_mxnet(environment, tmp_path) -> None:
    scripts = [rank_program(f"mxnet_script_{name}") for name in ("gluon", "module", "loop")]
    out = expect_programs_end(environment, *scripts)
    assert out.count("all right") == 3 * 2


# Users' programs do not give numpy its old names back.
@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) >= "1.24.0",
    reason=f"MXNet 1.9.1 needs numpy below 1.24; this is {np.__version__}",
)
def test_the_program_of_the_page_and_the_example(environment, tmp_path) -> None:
    out = expect_programs_end(
        environment,
        program_of_page("mxnet.md", tmp_path),
        *example_and_alone("mxnet_digits", tmp_path, "--float64 --epochs 2"),
    )
    losses = re.findall(r"^\[worker \d\] (\d+\.\d+)$", out, re.MULTILINE)
    assert len(losses) == 2
    assert losses[0] == losses[1]
    expect_same_weights(tmp_path, 1e-12)
