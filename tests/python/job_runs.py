"""Runs of the programs in jobs/ as whole jobs of the installed package, for tests."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from processes import LIMIT_S, TOKEN_VARIABLE, carriers, finish, wait_until_gone

JOBS = Path(__file__).with_name("jobs")


def what_is_missing(framework: str) -> str:
    """Return why whole jobs with a framework cannot run here; empty when they can."""
    script = (
        f"import byteps._core, {framework}\n"
        "from byteps.common.programs import find_program\n"
        "find_program('server'), find_program('scheduler')"
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [sys.executable, "-c", script]
    result = subprocess.run(
        command, env=environment, cwd="/", capture_output=True, text=True, timeout=LIMIT_S
    )
    return result.stderr.strip().splitlines()[-1] if result.returncode else ""


@pytest.fixture
def environment():
    """The environment of a job, of which no process may be left at the end of the test."""
    token = uuid.uuid4().hex
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("DMLC_", "BYTEPS_", "PYTHONPATH"))
    }
    yield {**kept, TOKEN_VARIABLE: token, "OMP_NUM_THREADS": "1"}
    assert wait_until_gone(carriers(token)) == {}


def job(
    environment,
    job_name: str,
    workers: int,
    servers: int,
    *options: str,
    arguments: tuple[str, ...] = (),
) -> subprocess.Popen[str]:
    counts = ["-np", str(workers), "--servers", str(servers)]
    command = [sys.executable, "-m", "byteps.cli", "run", *counts]
    return subprocess.Popen(
        [*command, *options, sys.executable, str(JOBS / f"{job_name}.py"), *arguments],
        env=environment,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def expect_all_right(environment, name: str, workers: int, servers: int) -> None:
    code, out, err = finish(job(environment, name, workers, servers))
    assert code == 0, out + err
    for rank in range(workers):
        assert f"[worker {rank}] all right {rank}/{workers}" in out


def expect_all_right_alone(environment, name: str) -> None:
    command = [sys.executable, str(JOBS / f"{name}.py")]
    result = subprocess.run(
        command, env=environment, cwd="/", capture_output=True, text=True, timeout=LIMIT_S
    )
    assert result.returncode == 0, result.stderr
    assert "all right 0/1" in result.stdout


def process_of(environment, label: str) -> int:
    """Return the process id that belongs to a label of the launcher."""
    role, _, number = label.partition(" ")
    found = []
    for process in sorted(carriers(environment[TOKEN_VARIABLE])):
        entries = Path(f"/proc/{process}/environ").read_bytes().decode().split("\0")
        variables = dict(entry.split("=", 1) for entry in entries if "=" in entry)
        if variables.get("DMLC_ROLE") == role:
            found.append((variables.get("BYTEPS_LOCAL_RANK", ""), process))
    return found[int(number or 0)][1]
