"""Whole jobs with the real Keras 3, on each backend, and with Keras 2."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import job_runs
import pytest
from job_runs import expect_all_right, job, process_of
from processes import finish, wait_for_line
from shapes import FULL, shapes


def _version() -> str:
    try:
        return version("keras")
    except PackageNotFoundError:
        return "none"


keras_3 = pytest.mark.skipif(
    not _version().startswith("3."), reason=f"Keras 3 is not installed here: keras {_version()}"
)


@pytest.fixture(params=("jax", "torch", "tensorflow"))
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


@keras_3
@shapes((3, 2))
def test_every_operation_of_keras(environment, workers, servers) -> None:
    expect_all_right(environment, "keras_operations", workers, servers)


@keras_3
@shapes((2, 1))
def test_training_with_keras_equals_training_alone(environment, workers, servers) -> None:
    expect_all_right(environment, "keras_training", workers, servers)


@keras_3
def test_training_with_jit_compile(environment, backend) -> None:
    if backend == "jax":
        pytest.skip("the other training with JAX has jit_compile=True")
    if backend == "torch" and not FULL:
        pytest.skip("the compiler of torch takes minutes; TEST_FULL=1 runs it")
    expect_in_all(environment, "keras_training", "--jit")


@keras_3
@pytest.mark.parametrize("script", ["mnist", "advanced", "own_loop"])
def test_scripts_for_horovod(environment, script) -> None:
    expect_in_all(environment, f"usage/horovod_keras_{script}")


@keras_3
def test_the_script_of_the_page(environment, tmp_path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "keras.md").read_text()
    script = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert script is not None
    (tmp_path / "train.py").write_text(f"import os\nos.chdir({str(tmp_path)!r})\n{script[1]}")
    code, out, err = finish(job(environment, str(tmp_path / "train"), 2, 1))
    assert code == 0, out + err
    assert "Epoch 4/4" in out
    assert (tmp_path / "best.keras").exists()


@keras_3
def test_keras_goes_on_when_a_server_is_killed(environment) -> None:
    process = job(environment, "keras_steps", 2, 2)
    for _ in range(2):
        wait_for_line(process, "stepping")
    os.kill(process_of(environment, "server 0"), signal.SIGKILL)
    code, out, err = finish(process)
    assert code == 0, out + err
    assert out.count("all right") == 2


@shapes((3, 2))
def test_every_operation_of_keras_2(all_environment, workers, servers) -> None:
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("tensorflow is not installed here")
    if importlib.util.find_spec("tf_keras") is None and _version().startswith("3."):
        pytest.skip("Keras 2 is not installed here: neither tf_keras nor TensorFlow 2.15")
    environment = {**all_environment, "TF_CPP_MIN_LOG_LEVEL": "2"}
    expect_all_right(environment, "keras2_operations", workers, servers)
