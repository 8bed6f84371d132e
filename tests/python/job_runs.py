"""Runs of the programs in jobs/ as whole jobs of the installed package, for tests."""

from __future__ import annotations

import functools
import importlib.util
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from processes import (
    LIMIT_S,
    TOKEN_VARIABLE,
    carriers,
    clean_environment,
    contract,
    evicting,
    finish,
    start_role,
    started_with,
    wait_for_line,
    wait_until_gone,
)
from rank_programs import rank_program
from warm_python import await_server

from byteps.common.job.layout import Layout

REPOSITORY = Path(__file__).resolve().parents[2]


@functools.cache
def what_is_missing(framework: str) -> str:
    """Return why whole jobs with a framework cannot run here; empty when they can.

    The framework is not imported: each process of pytest asks, which took 3 seconds of a core each.
    """
    script = (
        "import importlib.util, byteps._core\n"
        f"assert importlib.util.find_spec({framework!r}), 'there is no {framework}'\n"
        "from byteps.common.job.executables import find_program\n"
        "find_program('server'), find_program('scheduler')"
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [sys.executable, "-c", script]
    result = subprocess.run(
        command, env=environment, cwd="/", capture_output=True, text=True, timeout=LIMIT_S
    )
    if result.returncode == 0:
        return ""
    return (result.stderr.strip() or f"it ended with {result.returncode}").splitlines()[-1]


@pytest.fixture
def environment():
    """The environment of a job, of which no process may be left at the end of the test."""
    token = uuid.uuid4().hex
    yield {
        **clean_environment(),
        TOKEN_VARIABLE: token,
        "OMP_NUM_THREADS": "1",
        # On a busy machine a process comes late and stands still, and lives.
        "BYTEPS_START_TIMEOUT": str(round(LIMIT_S)),
        **evicting(round(LIMIT_S * 1000)),
        # Where a loss ends the job. A scheduler that was started again waits so long for the dead.
        "BYTEPS_HEARTBEAT_TIMEOUT_MS": "30000",
    }
    assert wait_until_gone(carriers(token)) == {}


# For ranks that a test kills or looks at, that measure their memory (a fork reads the pages of its
# libraries one by one), and for what comes before the import of a framework.
COLD_PYTHON = [sys.executable]


def framework_here() -> str:
    """Return the framework that this Python has to test byteps with."""
    names = ("tensorflow", "torch", "jax", "mxnet", "numpy")
    return next(name for name in names if importlib.util.find_spec(name))


# What a framework imports only when a program needs it, and most programs do: with its first
# optimizer torch imports as much again as before it.
IMPORTED_LATER = {"torch": ["torch._dynamo"]}
_SERVERS: list[subprocess.Popen[bytes]] = []  # they end with the run


@functools.cache
def warm_server(framework: str) -> list[str]:
    """Start a server, unless another process of this run of pytest has started it."""
    script = str(Path(__file__).with_name("warm_python.py"))
    owner, run = os.getpid(), uuid.uuid4().hex
    if "PYTEST_XDIST_WORKER" in os.environ:
        owner, run = os.getppid(), os.environ["PYTEST_XDIST_TESTRUNUID"]
    name = f"{framework} {run}"
    modules = [framework, *IMPORTED_LATER.get(framework, [])]
    _SERVERS.append(
        subprocess.Popen(
            [sys.executable, script, "serve", name, str(owner), *modules],
            env={**clean_environment(), "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    )
    await_server(name, LIMIT_S)
    return [sys.executable, "-SE", script, "run", name]


def warm_python(framework: str = "") -> list[str]:
    """Return the words that start a Python which has imported a framework; see warm_python.py."""
    return warm_server(framework or framework_here())


def job(
    environment,
    job_name: str,
    workers: int,
    servers: int,
    *options: str,
    arguments: tuple[str, ...] = (),
    python: Sequence[str] = (),
) -> subprocess.Popen[str]:
    """Start a job; with 0 servers, one of ranks that share memory."""
    counts = ["-np", str(workers), *(["--servers", str(servers)] if servers else [])]
    command = [sys.executable, "-m", "byteps.cli", "run", *counts]
    # TensorFlow imports Keras, which takes its backend from the environment then.
    python = python or warm_python(environment.get("KERAS_BACKEND", ""))
    command += [*options, *python, rank_program(job_name), *arguments]
    return subprocess.Popen(
        command,
        env=environment,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def machines(
    environment,
    name: str,
    sizes: tuple[int, ...],
    servers: int = 1,
    arguments: tuple[str, ...] = (),
    python: Sequence[str] = (),
    **options: str,
) -> Iterator[list[subprocess.Popen[str]]]:
    """Start services, and a launcher for each machine with its workers; yields these launchers.

    The machines are on one host, and know of each other only what the contract says.
    """
    common = {
        **environment,
        **contract(len(sizes), servers),
        **Layout(sizes).variables(),
        **options,
    }
    roles = ["scheduler", *["server"] * servers]
    services = [start_role(common, role) for role in roles]
    script = (*(python or warm_python()), rank_program(name), *arguments)
    started = [
        start_role(common, "worker", *script, DMLC_WORKER_ID=str(i)) for i in range(len(sizes))
    ]
    try:
        yield started
    finally:
        for process in [*started, *services]:
            if process.poll() is None:
                process.terminate()
            finish(process)


def expect_all_right(environment, name: str, workers: int, servers: int, *arguments: str) -> None:
    code, out, err = finish(job(environment, name, workers, servers, arguments=arguments))
    assert code == 0, out + err
    for rank in range(workers):
        assert f"[worker {rank}] all right {rank}/{workers}" in out


def expect_all_right_alone(environment, name: str) -> None:
    command = [sys.executable, rank_program(name)]
    result = subprocess.run(
        command, env=environment, cwd="/", capture_output=True, text=True, timeout=LIMIT_S
    )
    assert result.returncode == 0, result.stderr
    assert "all right 0/1" in result.stdout


def expect_outlives_a_server(environment, name: str) -> None:
    """Kill one of two servers while two workers run a program that steps."""
    process = job(environment, name, 2, 2)
    for _ in range(2):
        wait_for_line(process, "stepping")
    os.kill(process_of(environment, "server 0"), signal.SIGKILL)
    code, out, err = finish(process)
    assert code == 0, out + err
    assert out.count("all right") == 2, out


def expect_failure_ends_all(environment, framework: str) -> None:
    """Rank 1 of two raises an exception in the middle of training: the job ends, and says it."""
    process = job(environment, "step_fails", 2, 1, arguments=(framework,))
    code, out, err = finish(process)
    assert code != 0, out + err
    assert "LookupError: the data of rank 1 ends here" in err, err
    assert "all steps" not in out, out


def expect_programs_end(environment, *programs: str) -> str:
    """Run programs of users one after another on two workers; return what they print.

    A program is a line with its arguments, as programs.py takes them.
    """
    code, out, err = finish(job(environment, "programs", 2, 1, arguments=programs))
    assert code == 0, out + err
    assert out.count("] ended ") == 2 * len(programs), out
    return out


def usage(*names: str) -> list[str]:
    """Return programs of users."""
    return [rank_program(name) for name in names]


def program_of_page(page: str, folder: Path) -> str:
    """Return a file with the first program of a page in docs/."""
    text = (REPOSITORY / "docs" / page).read_text()
    program = folder / f"page_{Path(page).stem}.py"
    program.write_text(text.partition("```python\n")[2].partition("```")[0])
    return str(program)


def example_and_alone(name: str, folder: Path, *options: str) -> list[str]:
    """Return two runs of an example, the second of one process; see `expect_same_weights`."""
    line = " ".join([str(REPOSITORY / "examples" / f"{name}.py"), *options, "--weights"])
    return [f"{line} {folder}/together.npz", f"{line} {folder}/alone{{rank}}.npz --alone"]


def expect_same_weights(folder: Path, tolerance: float) -> None:
    """Compare what the runs of `example_and_alone` have saved."""
    one, other = (np.load(folder / f"{name}.npz") for name in ("together", "alone0"))
    assert one.files == other.files
    for key in one.files:
        assert abs(one[key] - other[key]).max() < tolerance, key


def process_of(environment, label: str) -> int:
    """Return the process id that belongs to a label of the launcher."""
    role, _, number = label.partition(" ")
    names = {"worker": "BYTEPS_LOCAL_RANK", "server": "DMLC_RANK"}
    numbered = {names[role]: number} if number else {}
    (found,) = started_with(environment[TOKEN_VARIABLE], DMLC_ROLE=role, **numbered)
    return found
