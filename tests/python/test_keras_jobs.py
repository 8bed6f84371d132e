"""Whole jobs with the real Keras 3, on each backend that is installed."""

from __future__ import annotations

import importlib.util
import os
import signal

import pytest
import test_jobs
from processes import finish, wait_for_line
from shapes import shapes
from test_jobs import MISSING, expect_all_right, job, process_of


def _version() -> str:
    if importlib.util.find_spec("keras") is None:
        return ""
    from importlib.metadata import version

    return version("keras")


IS_KERAS_3 = _version().startswith("3.")
pytestmark = pytest.mark.skipif(
    bool(MISSING) or not IS_KERAS_3,
    reason=f"byteps or Keras 3 is not installed in this Python: {MISSING or _version() or 'none'}",
)


def missing(backend: str) -> str:
    """Return why byteps has no such backend here; empty if it has."""
    if importlib.util.find_spec(backend) is None:
        return f"{backend} is not installed in this Python"
    if backend != "tensorflow":
        return ""
    if importlib.util.find_spec("byteps.tensorflow") is None:
        return "this byteps has no byteps.tensorflow"
    return ""


@pytest.fixture(params=("jax", "torch", "tensorflow"))
def backend(request):
    why = missing(request.param)
    if why:
        pytest.skip(why)
    return request.param


@pytest.fixture
def environment(backend):
    made = test_jobs.environment.__wrapped__()
    found = next(made)
    yield {**found, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "2"}
    for _ in made:
        pass


@shapes((3, 2))
def test_every_operation_of_keras(environment, workers, servers) -> None:
    expect_all_right(environment, "keras_operations", workers, servers)


@shapes((2, 1))
def test_training_with_keras_equals_training_alone(environment, workers, servers) -> None:
    expect_all_right(environment, "keras_training", workers, servers)


def test_compiled_training_equals_training_alone(environment, backend) -> None:
    if backend == "jax":
        pytest.skip("the other training is compiled already")
    code, out, err = finish(job(environment, "keras_training", 2, 1, arguments=("--jit",)))
    assert code == 0, out + err
    assert out.count("all right") == 2


@pytest.mark.parametrize("script", ["mnist", "advanced", "own_loop"])
def test_scripts_for_horovod(environment, script) -> None:
    code, out, err = finish(job(environment, f"keras_horovod_{script}", 2, 1))
    assert code == 0, out + err
    assert out.count("all right") == 2


def test_keras_goes_on_when_a_server_is_killed(environment) -> None:
    process = job(environment, "keras_steps", 2, 2)
    for _ in range(2):
        wait_for_line(process, "stepping")
    os.kill(process_of(environment, "server 0"), signal.SIGKILL)
    code, out, err = finish(process)
    assert code == 0, out + err
    assert out.count("all right") == 2
