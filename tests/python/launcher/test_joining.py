"""The launcher says when the programs of a job were none."""

from __future__ import annotations

import os
import sys
import uuid

import job_runs
import pytest
import torch_jobs
from processes import finish
from test_foreign_launchers import start

from byteps.cli.children import ProcessSpec
from byteps.cli.joining import Joining
from byteps.common.job.launch_notes import GROUP, IMPORTED, JOINED, MARKER_VARIABLE, tell_launcher

environment = job_runs.environment
PYTHON = ("env", "A=1", "/usr/bin/python3.11", "train.py")
NOBODY = "2 programs ran and none called init"
JOIN = "import byteps.numpy as bps; bps.init()"
GLOO = "import torch.distributed as dist; dist.init_process_group('gloo')"


@pytest.fixture
def joining(monkeypatch):
    """Hear of processes that carry a mark, within the mark of a launcher around it."""
    marker = uuid.uuid4().hex  # other processes of the tests have theirs
    heard = Joining(marker)
    monkeypatch.setenv(MARKER_VARIABLE, f"outer:{marker}")
    yield heard
    heard.close()


def workers(command, size: int = 2, **more) -> list[ProcessSpec]:
    told = {"WORLD_SIZE": str(size)}
    return [ProcessSpec(f"worker {n}", command, told, rank=n, **more) for n in range(size)]


@pytest.mark.parametrize(
    ("words", "command", "text"),
    [
        ([], PYTHON, NOBODY),
        ([IMPORTED], PYTHON, NOBODY),
        ([IMPORTED], ("sh", "train.sh"), NOBODY),
        ([IMPORTED, f"{GROUP}gloo"], ("sh", "train.sh"), "the backend 'gloo' of torch.distributed"),
        ([], ("true",), ""),
        ([], ("./program", "in C"), ""),
        ([JOINED], PYTHON, ""),
        ([f"{GROUP}gloo", JOINED], PYTHON, ""),
        (["nonsense"], ("true",), ""),
    ],
)
def test_what_is_said(joining, words, command, text) -> None:
    for word in words:
        tell_launcher(word)
    said = joining.why_alone(workers(command))
    assert text in said
    assert bool(text) == bool(said)


def test_who_speaks(joining) -> None:
    assert joining.why_alone(workers(PYTHON, 1)) == ""  # nobody to meet
    assert joining.why_alone(workers(PYTHON)[1:]) == ""  # the host of rank 0 does it
    assert joining.why_alone(workers(PYTHON, task="{}")) == ""  # its agent does it
    assert joining.why_alone([ProcessSpec("server 0", PYTHON, {}, "server")]) == ""


def test_a_launcher_that_cannot_hear_says_nothing(joining) -> None:
    deaf = Joining(os.environ[MARKER_VARIABLE].partition(":")[2])  # somebody has the address
    assert deaf.why_alone(workers(PYTHON)) == ""
    deaf.close()


def test_telling_nobody_does_no_harm(monkeypatch) -> None:
    monkeypatch.setenv(MARKER_VARIABLE, "of nobody")
    tell_launcher(JOINED)
    monkeypatch.delenv(MARKER_VARIABLE)
    tell_launcher(JOINED)


@torch_jobs.needs_torch
@pytest.mark.parametrize(
    ("options", "program", "told"),
    [
        (["-np", "2"], "print(1)", NOBODY),
        (["-np", "2"], JOIN, ""),
        (["-np", "2", "--servers", "1"], JOIN, ""),
        (["-np", "2"], GLOO, "2 programs ran with the backend 'gloo'"),
        (["-np", "2"], "raise SystemExit(3)", ""),
    ],
)
def test_jobs(environment, options, program, told) -> None:
    command = [sys.executable, "-m", "byteps.cli", "run", *options, sys.executable, "-c", program]
    code, out, err = finish(start(environment, *command))
    assert code == (3 if "Exit" in program else 0), out + err
    lines = [line for line in err.splitlines() if line.startswith("[bps] ")]
    lines = [line for line in lines if "OMP_NUM_THREADS" not in line and "exit code 3" not in line]
    assert len(lines) == bool(told), err
    assert not told or told in lines[0]
