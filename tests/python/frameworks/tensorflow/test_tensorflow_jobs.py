"""Whole jobs with the real TensorFlow."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import job_runs
import pytest
from job_runs import expect_all_right, expect_all_right_alone, job, process_of
from processes import finish, wait_for_line
from shapes import shapes

environment = job_runs.environment

SCRIPTS = ("classifier", "session", "everything")


@shapes((3, 2), (2, 1))
def test_every_operation_of_tensorflow(environment, workers, servers) -> None:
    expect_all_right(environment, "tensorflow_operations", workers, servers)


def test_one_process_with_tensorflow(environment) -> None:
    expect_all_right_alone(environment, "tensorflow_operations")


@shapes((2, 1), (3, 2))
def test_training_with_tensorflow_equals_training_alone(environment, workers, servers) -> None:
    expect_all_right(environment, "tensorflow_training", workers, servers)


@shapes((2, 1))
def test_exchanges_inside_programs_of_xla(environment, workers, servers) -> None:
    expect_all_right(environment, "tensorflow_compiled", workers, servers)


def test_the_program_of_the_page_about_tensorflow(environment, tmp_path) -> None:
    page = (Path(__file__).resolve().parents[4] / "docs" / "tensorflow.md").read_text()
    program = tmp_path / "train.py"
    program.write_text(page.split("```python\n", 1)[1].split("```", 1)[0])
    process = job(environment, str(program.with_suffix("")), 2, 1)
    code, out, err = finish(process)
    assert code == 0, out + err
    (loss,) = re.findall(r"loss (\d\.\d+)", out)
    assert float(loss) < 0.3, out


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_for_horovod_with_tensorflow(environment, script) -> None:
    process = job(environment, f"usage/horovod_tensorflow_{script}", 2, 1)
    code, out, err = finish(process)
    assert code == 0, out + err
    assert out.count("all right") == 2


def test_tensorflow_goes_on_when_a_server_is_killed(environment) -> None:
    process = job(environment, "tensorflow_steps", 2, 2)
    for _ in range(2):
        wait_for_line(process, "stepping")
    os.kill(process_of(environment, "server 0"), signal.SIGKILL)
    code, out, err = finish(process)
    assert code == 0, out + err
    assert out.count("all right") == 2
