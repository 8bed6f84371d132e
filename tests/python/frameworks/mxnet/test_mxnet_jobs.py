"""Whole jobs with the real MXNet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import job_runs
import numpy as np
import pytest
from job_runs import expect_all_right, expect_all_right_alone, job, process_of
from processes import LIMIT_S, finish, wait_for_line
from shapes import shapes

REPOSITORY = Path(__file__).resolve().parents[4]

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


# Users' programs do not give numpy its old names back.
is_for_users = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) >= "1.24.0",
    reason=f"MXNet 1.9.1 needs numpy below 1.24; this is {np.__version__}",
)


@is_for_users
def test_the_program_of_the_page_runs(environment, tmp_path) -> None:
    page = (REPOSITORY / "docs/mxnet.md").read_text()
    program = tmp_path / "train.py"
    program.write_text(page.partition("```python\n")[2].partition("```")[0])
    code, out, err = finish(job(environment, str(program.with_suffix("")), 2, 1))
    assert code == 0, out + err
    losses = [line.split()[-1] for line in out.splitlines() if line.startswith("[worker")]
    assert len(losses) == 2
    assert losses[0] == losses[1]


@is_for_users
def test_the_example_learns_what_one_process_learns(environment, tmp_path) -> None:
    example = REPOSITORY / "examples/mxnet_digits.py"
    options = ("--float64", "--epochs", "2", "--weights")
    run = [sys.executable, str(example), "--alone", *options, str(tmp_path / "alone.npz")]
    subprocess.run(run, env=environment, cwd="/", check=True, timeout=LIMIT_S)
    together = (*options, str(tmp_path / "together.npz"))
    running = job(environment, str(example.with_suffix("")), 2, 1, arguments=together)
    code, out, err = finish(running)
    assert code == 0, out + err
    one, other = (np.load(tmp_path / f"{name}.npz") for name in ("alone", "together"))
    assert all(abs(one[key] - other[key]).max() < 1e-12 for key in one)
