"""`bps stack`: workers tell their own user where their threads are."""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import threading

import interruptions
import job_runs
import test_seeing
import torch_jobs
from processes import TOKEN_VARIABLE, carriers, finish, wait_for_line, wait_until

from byteps.cli import local_sockets
from byteps.common.job.stack_answers import PREFIX, StackAnswers
from byteps.common.own_threads import ANSWERS_STACKS
from byteps.common.session.session import _may_call_beside

environment = job_runs.environment
pytestmark = torch_jobs.needs_torch


def stack(environment, *arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "byteps.cli", "stack", *arguments]
    return finish(
        subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    )


def workers_of(environment) -> list[int]:
    """Return the workers of this test that say where they are."""
    mine = carriers(environment[TOKEN_VARIABLE])
    return sorted(pid for _, pid in local_sockets.names(PREFIX) if pid in mine)


def test_bps_stack_shows_where_a_worker_is(environment, tmp_path) -> None:
    go_on = tmp_path / "go_on"
    go_on.touch()
    # A worker that is stopped for a moment is not lost.
    process = test_seeing.cold_job(environment | {"BYTEPS_HEARTBEAT_TIMEOUT_MS": "100000"}, go_on)
    wait_for_line(process, "the job runs")
    wait_until(lambda: len(workers_of(environment)) == 2)
    for worker in workers_of(environment):
        code, out, err = stack(environment, str(worker))
        assert code == 0, err
        first, second, *rest = out.splitlines()
        assert re.fullmatch(rf"worker [01] of 2 of job \w+, process {worker}", first)
        assert second == "thread MainThread, the latest call last:"
        assert any("straggling.py" in line for line in rest), out
        assert ANSWERS_STACKS not in out
    stopped = workers_of(environment)[0]
    os.kill(stopped, signal.SIGSTOP)
    try:
        code, out, _ = stack(environment, str(stopped))
    finally:
        os.kill(stopped, signal.SIGCONT)
    assert code == 1
    assert f"process {stopped} does not answer: it stands still" in out
    go_on.unlink()
    code, out, err = finish(process)
    assert code == 0, out + err


def test_bps_stack_without_such_a_process(environment) -> None:
    code, _, err = stack(environment, str(os.getppid()))
    assert code == 1
    assert f"process {os.getppid()} is not one of this user" in err


def test_the_thread_that_answers_starts_no_operations() -> None:
    # Else a rank in a compiled step that waits for another one would never be taken for stuck.
    answers = StackAnswers()
    answers.begin(0, 2)
    try:
        assert answers_here()
        assert not _may_call_beside(threading.current_thread())
    finally:
        answers.end()


def test_a_job_after_a_job_answers_too() -> None:
    answers = StackAnswers()
    for _ in range(50):
        answers.begin(0, 2)
        assert answers_here()
        answers.end()
        assert not answers_here()


def test_an_exception_of_a_signal_handler_leaves_the_address_free() -> None:
    # `begin` is called by `init`, which calls `end` after an exception.
    place, there_is_one = 0, True
    kept = []  # as somebody keeps who looks at an exception, and then nothing is closed by itself
    while there_is_one:
        place += 1
        answers = StackAnswers()
        try:
            there_is_one = interruptions.at_place(
                place, functools.partial(answers.begin, 0, 2), _leave, "stack_answers.py"
            )
        except SystemExit as exception:
            kept.append(exception)
        answers.end()
        answers.begin(0, 2)
        assert answers_here(), place
        answers.end()
    assert place > 5
    assert kept


def answers_here() -> bool:
    """Return whether this process tells where its threads are."""
    addresses = [name for name, process in local_sockets.names(PREFIX) if process == os.getpid()]
    try:
        with local_sockets.connect(addresses[0]) as connection:
            return connection.recv(1000).startswith(b"worker 0 of 2")
    except (IndexError, ConnectionRefusedError):
        return False


def _leave() -> None:
    raise SystemExit(3)
