"""What the user reads when a job of real workers ends badly."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import job_runs
import pytest
from job_runs import job
from processes import finish, wait_for_line
from rank_programs import rank_program
from shapes import FULL
from torch_jobs import MISSING

environment = job_runs.environment

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"byteps and torch are not installed in this Python: {MISSING}"
)


def printed(err: str, rank: int) -> list[str]:
    """Return what the program of a rank printed, without the lines that BytePS logs among them.

    A server that ends at the same time makes the worker log, also in the middle of a traceback.
    """
    label = f"[worker {rank}] "
    lines = [line.removeprefix(label) for line in err.splitlines() if line.startswith(label)]
    return [line for line in lines if not re.match(r"\[\d{4}-\d\d-\d\d ", line)]


def test_an_error_that_nobody_catches_shows_the_users_frames_only(environment) -> None:
    cold = job_runs.COLD_PYTHON
    code, _, err = finish(job(environment, "ends", 2, 1, arguments=("disagree",), python=cold))
    assert code == 1
    for rank in range(2):
        lines = printed(err, rank)
        trace = lines[lines.index("Traceback (most recent call last):") :]
        frames = [line for line in trace if line.startswith("  File ")]
        assert len(frames) == 2, err
        assert all(rank_program("ends") in line for line in frames), err
        assert trace[-1].startswith("byteps.common.errors.MismatchError: "), err
    assert err.count("MismatchError: ") == 3  # of each worker, and in the launcher's last line


@pytest.mark.parametrize("servers", [1, *[0] * FULL])
def test_each_rank_of_a_group_that_disagrees_hears_of_it(environment, servers) -> None:
    code, _, err = finish(job(environment, "ends", 3, servers, arguments=("group",)))
    assert code == 1
    for rank in range(3):
        errors = [line for line in printed(err, rank) if "byteps.common.errors." in line]
        assert len(errors) == 1, err
        assert "byteps.common.errors.MismatchError: " in errors[0], err
        assert re.search(r"float32 \[\d\] on rank \d, all_reduce SUM float32", errors[0]), err
    assert "different numbers of batches" not in err
    assert "[scheduler]" not in err, "the launcher says it"
    assert "[server" not in err
    # On a busy machine the workers take so long to end that the launcher names the scheduler first.
    assert re.search(r"ended with exit code 1 \(.*MismatchError", err.splitlines()[-1]), err


@pytest.mark.parametrize("servers", [0, *[1] * FULL])
def test_the_others_hear_with_which_code_a_rank_has_ended(environment, servers) -> None:
    cold = job_runs.COLD_PYTHON  # its exit code is that of the program
    code, _, err = finish(job(environment, "ends", 3, servers, arguments=("exit",), python=cold))
    assert code == 9
    for rank in (0, 2):
        last = printed(err, rank)[-1]
        assert "PeerLostError: worker 1 " in last, err
        assert "was lost: it ended with sys.exit(9); " in last, err
    assert err.splitlines()[-1] == "[bps] worker 1 ended with exit code 9; ending the job"


def test_an_exit_that_is_caught_is_no_loss(environment) -> None:
    code, out, err = finish(job(environment, "ends", 3, 1, arguments=("caught",)))
    assert code == 0, err
    assert out.count("members: ") == 2
    assert "lost" not in err


def test_an_end_without_join_hints_at_it(environment) -> None:
    code, _, err = finish(job(environment, "ends", 2, 1, arguments=("uneven",)))
    assert code == 1
    last = err.splitlines()[-1]
    assert last.startswith(
        "[bps] worker 1 ended with exit code 1 (PeerLostError: worker 0 has left"
    )
    assert "(where ranks have different numbers of batches, each ends with join)" in last


def test_under_ddp_a_loss_is_told_once_by_each_survivor(environment) -> None:
    process = job(environment, "ends", 3, 1, "--min-np", "1", arguments=("ddp",))
    code, _, err = finish(process)
    assert code == 1
    # The launcher says more if the survivors take long to end.
    told = [line for line in err.splitlines() if not line.startswith("[bps]")]
    assert sum("PeerLostError: " in line for line in told) == 2, err
    assert "\nAt:" not in err
    assert "flight.py" not in err
    assert "silent" not in err  # the reason of worker 1 is its exception
    assert "[bps] worker 1 ended with exit code 1 (RuntimeError: no data)" in err


@pytest.mark.parametrize("way", ["threads", "group", "futures"])
def test_a_process_ends_in_order_while_something_waits(environment, way) -> None:
    """Threads of the user, a group of several types, a future: nothing aborts the process."""
    # An end with torch.distributed takes a second of the processor, the others a tenth of that.
    ends = 20 if way != "futures" or FULL else 4
    program = [sys.executable, rank_program("daemon_waits"), way, str(ends)]
    command = [sys.executable, "-m", "byteps.cli", "run", "-np", "2", *program]
    pipe = subprocess.PIPE
    started = subprocess.Popen(
        command, env=environment, cwd="/", stdout=pipe, stderr=pipe, text=True
    )
    code, out, err = finish(started)
    assert code == 0, out + err
    assert out.count(f"all right after {ends} ends") == 2, out + err


@pytest.fixture
def stepping(environment):
    """A job of 3 workers that step, in a session of its own as in a terminal."""
    counts = ["-np", "3", "--servers", "1"]
    program = [sys.executable, rank_program("ends"), "step"]
    process = subprocess.Popen(
        [sys.executable, "-m", "byteps.cli", "run", *counts, *program],
        env=environment,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    for _ in range(3):
        wait_for_line(process, "stepping")
    return process


def test_ctrl_c_ends_a_job_without_alarm(stepping) -> None:
    os.killpg(stepping.pid, signal.SIGINT)
    code, _, err = finish(stepping)
    assert code == 128 + signal.SIGINT
    assert "[bps] got SIGINT; ending the job" in err
    for alarm in ("the job is over", "was lost", "an exception ended it", "from a checkpoint"):
        assert alarm not in err, err


def test_an_interrupted_worker_is_named(environment, stepping) -> None:
    os.kill(job_runs.process_of(environment, "worker 1"), signal.SIGINT)
    code, _, err = finish(stepping)
    assert code == 128 + signal.SIGINT
    assert "PeerLostError: worker 1 has left the job" in err
    assert "was lost" not in err
    assert err.splitlines()[-1].startswith("[bps] worker 1 was killed by signal 2 (SIGINT)")
