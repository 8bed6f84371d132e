"""Processes of the job whose parents have ended: they become children of the launcher.

So they are found although they have left their process group and their session and have dropped the
environment with the marker (guard.py), as daemons do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Set
from pathlib import Path

from byteps.cli.guard import kill_and_wait

_PR_SET_CHILD_SUBREAPER = 36
_KILL_LIMIT_S = 5.0


class Orphans:
    """The children of this process that it has not started itself, from `begin` to `end`.

    A process that has children before its job (a shell had some and became the launcher) adopts
    none: it could not tell their descendants from the job's.
    """

    def __init__(self) -> None:
        self._adopts = False

    def begin(self) -> None:
        """Adopt from now on. Call it before this process starts anything."""
        self._adopts = _children() == set() and _set_subreaper(True)

    def reap(self, own: Set[int]) -> None:
        """Free the process table of those that have ended; `own` are not looked at."""
        for process in self._found(own):
            _is_reaped(process)

    def end(self, own: Set[int], limit_s: float = _KILL_LIMIT_S) -> None:
        """Kill all but `own`, also those that come when their parents end, and adopt no more."""
        deadline = time.monotonic() + limit_s
        left = set(own)
        while time.monotonic() < deadline and (found := self._found(left)):
            for process in found:
                # Its id is its own until it is reaped here.
                with contextlib.suppress(ProcessLookupError):
                    kill_and_wait(os.pidfd_open(process), deadline)
                if not _is_reaped(process):  # it belongs to another user
                    left.add(process)
        if self._adopts:
            self._adopts = not _set_subreaper(False)

    def _found(self, own: Set[int]) -> set[int]:
        return (_children() or set()) - own if self._adopts else set()


def _children() -> set[int] | None:
    """Return the children of this process, also those that have ended; None: nobody knows."""
    found = set()
    try:
        for thread in Path("/proc/self/task").iterdir():
            found |= {int(word) for word in (thread / "children").read_text().split()}
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return None
    return found


def _set_subreaper(wanted: bool) -> bool:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return bool(prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0) == 0)


def _is_reaped(process: int) -> bool:
    try:
        return os.waitpid(process, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True
