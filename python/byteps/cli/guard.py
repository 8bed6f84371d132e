"""Nothing outlives the launcher: not even when it is killed with SIGKILL.

Four means, because none is enough alone. Every child asks the kernel to be killed when the
launcher dies. Every process of a job carries a marker in its environment, so that descendants are
found wherever they went. A watchdog process holds a pipe that closes when the launcher dies, and
then kills all that carry the marker. Those that have dropped it are found while the launcher lives,
because they become its children when their parents end (orphans.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

from byteps.common.job.launch_notes import MARKER_VARIABLE

# What the launcher reacts to. These end the job, ...
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# ... and these mean what the workers' program makes of them, such as saving a checkpoint.
PASSED_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)
_PR_SET_PDEATHSIG = 1
_SWEEP_LIMIT_S = 5.0


def new_marker() -> str:
    """Return a marker that no other launcher has."""
    return secrets.token_hex(16)


def marked_environment(environment: dict[str, str], marker: str) -> dict[str, str]:
    """Return the environment with the marker added to those of launchers around this one."""
    outer = environment.get(MARKER_VARIABLE)
    return {**environment, MARKER_VARIABLE: f"{outer}:{marker}" if outer else marker}


def die_with_launcher() -> Callable[[], None]:
    """Return what a child runs before it becomes its program."""
    # Looked up here: between fork and exec a child should do as little as possible.
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    launcher = os.getpid()

    def before_exec() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != launcher:  # it died before the call took effect
            os._exit(1)

    return before_exec


def kill_marked(marker: str, limit_s: float = _SWEEP_LIMIT_S) -> int:
    """Kill every process that carries the marker and wait until they are gone; return how many."""
    deadline = time.monotonic() + limit_s
    killed = 0
    while time.monotonic() < deadline:
        found = _open_marked(marker.encode())
        if not found:
            break
        killed += len(found)
        for descriptor in found:
            kill_and_wait(descriptor, deadline)
    return killed


def _open_marked(marker: bytes) -> list[int]:
    """Return process descriptors of all that carry the marker; never this process' own."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            descriptor = os.pidfd_open(int(entry.name))
        except OSError:
            continue
        # Read after opening: the descriptor stays with this process even if the id is used anew.
        if _carries(entry, marker):
            found.append(descriptor)
        else:
            os.close(descriptor)
    return found


def _carries(process: Path, marker: bytes) -> bool:
    try:
        entries = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    name = MARKER_VARIABLE.encode() + b"="
    return any(entry.startswith(name) and marker in entry for entry in entries)


def kill_and_wait(descriptor: int, deadline: float) -> None:
    """Kill the process of a descriptor, wait until it is gone, and close the descriptor."""
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        poller.poll(max(0.0, deadline - time.monotonic()) * 1000)
    except OSError:
        pass  # it is gone already, or belongs to somebody else
    finally:
        os.close(descriptor)


class Watchdog:
    """A process that kills what the launcher leaves behind."""

    def __init__(self, marker: str) -> None:
        """Fork the watchdog. Call it before there are threads or children."""
        read_end, self._write_end = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            _watch(read_end, marker)
        os.close(read_end)

    @property
    def process(self) -> int:
        """Return its process id."""
        return self._process

    def dismiss(self) -> None:
        """Tell the watchdog that the launcher has cleaned up itself, and wait for its end."""
        with contextlib.suppress(BrokenPipeError):  # somebody killed it
            os.write(self._write_end, b".")
        os.close(self._write_end)
        os.waitpid(self._process, 0)


def _watch(read_end: int, marker: str) -> None:
    """Wait for the launcher's end; never returns."""
    try:
        os.setsid()
        for number in (*ENDING_SIGNALS, *PASSED_SIGNALS):
            signal.signal(number, signal.SIG_IGN)
        # Others wait for the end of the launcher's output; this process must not hold it open.
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.closerange(3, read_end)
        os.closerange(read_end + 1, 1024)
        if os.read(read_end, 1) == b"":
            kill_marked(marker)
    finally:
        os._exit(0)
