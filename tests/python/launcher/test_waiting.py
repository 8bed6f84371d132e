"""What a terminal shows while a job waits for a process."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios

import job_runs
import pytest
import torch_jobs
from processes import LIMIT_S

environment = job_runs.environment
pytestmark = torch_jobs.needs_torch

# The worker of rank 1 comes when a file is there.
LATE = """
import os, sys, threading
while os.environ["BYTEPS_LOCAL_RANK"] == "1" and not os.path.exists(sys.argv[1]):
    threading.Event().wait(0.01)
import byteps.numpy as bps
bps.init()
print("here")
"""


class OnTerminal:
    """A job on a terminal of its own."""

    def __init__(self, environment, *options: str, arguments: tuple[str, ...]) -> None:
        self._ours, its = os.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
        self.job = subprocess.Popen(
            [
                *(sys.executable, "-m", "byteps.cli", "run", "-np", "2", *options),
                *(sys.executable, "-c", LATE, *arguments),
            ],
            env={**environment, "NO_COLOR": "1"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=its,
            stderr=its,
            start_new_session=True,
        )
        os.close(its)
        self.seen = ""

    def read_until(self, pattern: str) -> None:
        while re.search(pattern, self.seen) is None:
            ready, _, _ = select.select([self._ours], [], [], LIMIT_S)
            assert ready, self.seen
            self.seen += os.read(self._ours, 1 << 16).decode()

    def end(self) -> int:
        try:
            while data := os.read(self._ours, 1 << 16):
                self.seen += data.decode()
        except OSError:  # nobody holds the other end any more
            pass
        os.close(self._ours)
        return self.job.wait(LIMIT_S)


@pytest.mark.parametrize(
    ("options", "who"),
    [
        (("--servers", "1"), r"\[scheduler\] waiting: 1/2 workers, 1/1 servers; missing worker 1"),
        # An agent stands between bps run and the processes.
        (
            ("--server-hosts", "localhost"),
            r"\[localhost scheduler\] waiting: 1/2 workers, 1/1 servers; missing worker 1",
        ),
        ((), r"\[worker 0\] waiting: 1/2 workers; missing local rank 1"),
    ],
    ids=["servers", "agents", "alone"],
)
def test_one_line_is_rewritten_until_all_are_here(environment, tmp_path, options, who) -> None:
    told = tmp_path / "come"
    terminal = OnTerminal(environment, *options, arguments=(str(told),))
    terminal.read_until(r"(?s)waited (\d+) s.*waited (?!\1 s)\d+ s")  # a busy machine skips some
    told.touch()
    assert terminal.end() == 0, terminal.seen
    assert re.search(who, terminal.seen), terminal.seen
    assert "all processes are here; the job begins" in terminal.seen
    # What stays on the terminal: the last of what was written between two ends of line.
    lines = [line.split("\r\x1b[K")[-1] for line in terminal.seen.split("\r\n")]
    assert not any("waiting" in line for line in lines), terminal.seen
    assert sum(line.endswith("here") for line in lines) == 2, lines
