"""Whole jobs with the real TensorFlow."""

from __future__ import annotations

import importlib.util
import re

import job_runs
import pytest
from job_runs import (
    example_and_alone,
    expect_all_right,
    expect_all_right_alone,
    expect_outlives_a_server,
    expect_programs_end,
    expect_same_weights,
    program_of_page,
    usage,
)
from shapes import some_shapes

environment = job_runs.environment


@some_shapes((3, 2))
def test_every_operation_of_tensorflow(environment, workers, servers) -> None:
    expect_all_right(environment, "tensorflow_operations", workers, servers)


@some_shapes((2, 1))
def test_every_function_with_odd_tensors(environment, workers, servers) -> None:
    expect_all_right(environment, "tensorflow_odd", workers, servers)


def test_one_process_with_tensorflow(environment) -> None:
    expect_all_right_alone(environment, "tensorflow_operations")


@some_shapes((2, 1))
def test_training_with_tensorflow_equals_training_alone(environment, workers, servers) -> None:
    expect_all_right(environment, "tensorflow_training", workers, servers)


@some_shapes((2, 1))
def test_exchanges_inside_programs_of_xla(environment, workers, servers) -> None:
    expect_all_right(environment, "tensorflow_compiled", workers, servers)


@some_shapes((2, 1))
def test_a_strategy_for_the_devices_of_each_process(environment, workers, servers) -> None:
    expect_all_right(environment, "tensorflow_strategy", workers, servers)


def test_programs_of_users_of_tensorflow(environment, tmp_path) -> None:
    out = expect_programs_end(
        environment,
        program_of_page("tensorflow.md", tmp_path),
        *usage("horovod_tensorflow_classifier", "horovod_tensorflow_everything"),
        *example_and_alone("tensorflow_digits", tmp_path, "--float64 --epochs 2"),
        *usage("horovod_tensorflow_session"),  # the last: it ends eager execution
    )
    assert out.count("all right") == 3 * 2
    (loss,) = re.findall(r"^\[worker 0\] loss (\d\.\d+)$", out, re.MULTILINE)
    assert float(loss) < 0.3, out
    expect_same_weights(tmp_path, 1e-12)


def test_more_programs_of_users_of_tensorflow(environment) -> None:
    names = ["words", "benchmark", "results"]
    out = expect_programs_end(environment, *usage(*[f"horovod_tensorflow_{n}" for n in names]))
    assert out.count("all right") == 3 * 2
    assert "images per second on 2 ranks: " in out


def test_a_program_of_a_user_of_keras_2(environment) -> None:
    if importlib.util.find_spec("tf_keras") is None:
        pytest.skip("Keras 2 is not installed here")
    out = expect_programs_end(environment, *usage("horovod_keras2_mnist"))
    assert out.count("all right") == 2


def test_several_frameworks_in_one_process(environment) -> None:
    for name in ("jax", "torch"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed here")
    expect_all_right(environment, "several_frameworks", 2, 1)


def test_tensorflow_goes_on_when_a_server_is_killed(environment) -> None:
    expect_outlives_a_server(environment, "tensorflow_steps")
