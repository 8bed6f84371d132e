"""`bps run --print-config`: the options of each role, and no job."""

from __future__ import annotations

import subprocess
import sys

import job_runs
import pytest
import torch_jobs
from processes import LIMIT_S

environment = job_runs.environment
pytestmark = torch_jobs.needs_torch


def shown(environment, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "byteps.cli", "run", "--print-config", *arguments],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_each_role_is_shown_once_with_what_it_reads(environment) -> None:
    done = shown(environment, "-np", "2", "--servers", "2", "touch", "/nowhere/started")
    assert done.returncode == 0, done.stderr
    heads = [line for line in done.stdout.splitlines() if line.startswith("#")]
    assert heads == ["# scheduler", "# server 0", "# worker 0"]
    assert "DMLC_ROLE=worker" in done.stdout
    assert "BYTEPS_LOCAL_SIZE=2\n" in done.stdout
    assert "BYTEPS_PARTITION_BYTES=32768  # default" in done.stdout
    assert "BYTEPS_JOB_SECRET=***" in done.stdout


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    [
        ("BYTEPS_LANES", "many", "BYTEPS_LANES"),
        ("BYTEPS_LANES", "1000", "1 to 16"),
    ],
)
def test_a_wrong_value_is_named(environment, variable, value, text) -> None:
    done = shown(environment | {variable: value}, "-np", "2", "true")
    assert done.returncode == 2, done.stdout
    assert text in done.stderr


def test_a_mistyped_variable_is_named_with_the_nearest(environment) -> None:
    done = shown(environment | {"BYTEPS_PARTITON_BYTES": "4096"}, "-np", "2", "true")
    assert done.returncode == 0, done.stderr
    assert "did you mean BYTEPS_PARTITION_BYTES?" in done.stderr
