"""Whole jobs with the real Keras 3, on each backend, and with Keras 2."""

from __future__ import annotations

import importlib.util
from importlib.metadata import PackageNotFoundError, version

import job_runs
import pytest
from job_runs import (
    COLD_PYTHON,
    example_and_alone,
    expect_all_right,
    expect_outlives_a_server,
    expect_programs_end,
    expect_same_weights,
    job,
    program_of_page,
    usage,
)
from processes import finish
from shapes import FULL, some_shapes


def _version() -> str:
    try:
        return version("keras")
    except PackageNotFoundError:
        return "none"


keras_3 = pytest.mark.skipif(
    not _version().startswith("3."), reason=f"Keras 3 is not installed here: keras {_version()}"
)


def backends(*usual: str) -> pytest.MarkDecorator:
    """Run a test of Keras 3 on these backends, or on all of them with TEST_FULL=1."""
    chosen = ("jax", "torch", "tensorflow") if FULL else usual
    return pytest.mark.parametrize("backend", chosen, indirect=True)


@pytest.fixture
def backend(request):
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed here")
    return request.param


all_environment = job_runs.environment


@pytest.fixture
def environment(all_environment, backend):
    return {**all_environment, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "2"}


def expect_in_all(environment, name: str, *arguments: str) -> None:
    code, out, err = finish(job(environment, name, 2, 1, arguments=arguments))
    assert code == 0, out + err
    assert out.count("all right") == 2


# A third rank costs half a minute of a core: JAX and TensorFlow compile on every one.
@keras_3
@backends("torch")
def test_every_operation_of_keras(environment, backend) -> None:
    expect_all_right(environment, "keras_operations", 3 if FULL else 2, 2)


# JAX compiles for each optimizer: fewer of them show the same.
@keras_3
@backends("jax", "torch", "tensorflow")
@some_shapes((2, 1))
def test_training_with_keras_equals_training_alone(environment, backend, workers, servers) -> None:
    few = ("sgd", "accumulation") if backend == "jax" and not FULL else ()
    expect_all_right(environment, "keras_training", workers, servers, *few)


# The other training with JAX has jit_compile=True. The compiler of torch takes minutes.
@keras_3
@pytest.mark.parametrize("backend", ["tensorflow", *["torch"] * FULL], indirect=True)
def test_training_with_jit_compile(environment, backend) -> None:
    expect_in_all(environment, "keras_training", "--jit")


@keras_3
@backends("torch")
def test_programs_of_users_of_keras(environment, backend, tmp_path) -> None:
    names = ["mnist", "advanced", "own_loop", "local"]
    if backend == "jax":
        print("without horovod_keras_checkpoints: with JAX, load_model must be called on all ranks")
    else:
        names.append("checkpoints")
    programs = usage(*[f"horovod_keras_{name}" for name in names])
    if backend == "torch" or FULL:  # it compiles nothing
        programs.append(program_of_page("keras.md", tmp_path))
        programs += example_and_alone("keras_digits", tmp_path, "--epochs 2")
    out = expect_programs_end(environment, *programs)
    assert out.count("all right") == len(names) * 2
    if len(programs) > len(names):
        assert "Epoch 4/4" in out
        expect_same_weights(tmp_path, 1e-4)  # float32


@keras_3
@backends("torch", "tensorflow")
def test_every_function_of_keras_with_odd_values(environment, backend) -> None:
    expect_all_right(environment, "keras_odd", 2, 1)


@keras_3
def test_every_function_of_keras_2_with_odd_values(all_environment) -> None:
    if importlib.util.find_spec("tf_keras") is None:
        pytest.skip("Keras 2 is not installed here")
    environment = {**all_environment, "TF_CPP_MIN_LOG_LEVEL": "2", "KERAS_BACKEND": "tensorflow"}
    expect_in_all(environment, "keras_odd", "keras2")


@keras_3
@backends("jax", "torch", "tensorflow")
def test_a_rank_with_more_batches_than_others(environment, backend) -> None:
    names = ["keras", *[backend] * (backend != "torch")]
    expect_in_all(environment, "uneven_batches", *names)


if FULL:  # the same happens in the tests of torch, TensorFlow and JAX

    @keras_3
    @backends()
    def test_keras_goes_on_when_a_server_is_killed(environment, backend) -> None:
        expect_outlives_a_server(environment, "keras_steps")


@some_shapes((2, 2))
def test_every_operation_of_keras_2(all_environment, workers, servers) -> None:
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("tensorflow is not installed here")
    if importlib.util.find_spec("tf_keras") is None and _version().startswith("3."):
        pytest.skip("Keras 2 is not installed here: neither tf_keras nor TensorFlow 2.15")
    environment = {**all_environment, "TF_CPP_MIN_LOG_LEVEL": "2"}
    expect_all_right(environment, "keras2_operations", workers, servers)


@keras_3
def test_keras_2_as_the_keras_of_tensorflow(all_environment) -> None:
    if importlib.util.find_spec("tf_keras") is None:
        pytest.skip("Keras 2 is not installed here")
    environment = {**all_environment, "TF_CPP_MIN_LOG_LEVEL": "2", "TF_USE_LEGACY_KERAS": "1"}
    # TensorFlow looks at the variable when it is imported.
    run = job(environment, "keras2_operations", 2, 1, arguments=("local",), python=COLD_PYTHON)
    code, out, err = finish(run)
    assert code == 0, out + err
    assert out.count("all right") == 2
