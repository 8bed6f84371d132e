"""The jobs of this user on this machine: each shows its state on a local socket of this user.

The socket is that of the scheduler; without servers, that of rank 0 (src/runtime/seeing/
status_port.h). Its abstract name stands in /proc/net/unix and is gone with the process.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from byteps.common.errors import BytepsError

_SOCKETS = Path("/proc/net/unix")
_LISTENS = 0x10000  # in the column of flags (__SO_ACCEPTCON)
_PREFIX = "@byteps-status-"
_NAME = re.compile(r"@byteps-status-(\d+)-(\d+)-(\d+)")
_CREDENTIALS = struct.Struct("3i")  # process, user, group
_ANSWER_LIMIT_S = 3.0
_PAGE_MAX = 4 << 20


@dataclass(frozen=True)
class UserJob:
    """A job that shows its state, or would: its process may stand still."""

    socket_name: str  # with "@" in place of the zero
    process: int  # that shows it
    name: str  # empty: the process does not answer
    state: dict[str, Any]  # as /status.json has it; empty: the process does not answer

    def page(self, path: str = "/") -> tuple[int, str, bytes]:
        """Return status, type and content of one of its pages."""
        return _ask(self.socket_name, path)

    def line(self) -> str:
        """Return a line about it for people."""
        state = self.state
        if not state:
            return f"{'':20} {self.process:>8}  does not answer: it stands still"
        there = sum(m["role"] == "worker" and m["state"] == "in" for m in state["members"])
        return (
            f"{self.name:20} {self.process:>8}  {there} of {state['workers_expected']} workers, "
            f"{state['servers_expected']} servers, {state['up_s']:.0f} s: {state['state']}"
        )


class _LocalConnection(http.client.HTTPConnection):
    """HTTP over an abstract socket whose other end is a process of this user."""

    def __init__(self, name: str) -> None:
        super().__init__("localhost", timeout=_ANSWER_LIMIT_S)
        self._name = name

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_ANSWER_LIMIT_S)
        self.sock.connect("\0" + self._name[1:])
        said = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(said)[1] != os.geteuid():
            raise ConnectionError("another user's process listens there")


def _ask(name: str, path: str) -> tuple[int, str, bytes]:
    with contextlib.closing(_LocalConnection(name)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type", ""), answer.read(_PAGE_MAX)


def _names(sockets: Path) -> list[str]:
    """Return the names of this user's sockets that listen."""
    try:
        lines = sockets.read_text(errors="replace").splitlines()[1:]
    except OSError as error:
        raise BytepsError(
            f"{sockets} cannot be read ({error.strerror}), so nobody knows which jobs run here. "
            "Start the job with BYTEPS_STATUS_PORT=PORT, and name the port: bps top PORT."
        ) from None
    found = []
    for words in map(str.split, lines):
        listens = len(words) == 8 and int(words[3], 16) & _LISTENS
        parts = _NAME.fullmatch(words[7]) if listens else None
        if parts and int(parts[1]) == os.geteuid():
            found.append(words[7])
    return found


def _job_of(name: str) -> UserJob | None:
    """Return the job that this socket shows; None: the process has ended, or another one's has."""
    process = int(name.removeprefix(_PREFIX).split("-")[1])
    silent = UserJob(name, process, "", {})
    try:
        status, _, content = _ask(name, "/status.json")
        if status == http.client.SERVICE_UNAVAILABLE:
            return silent
        state = json.loads(content)
        return UserJob(name, process, str(state["job"]), state)
    except TimeoutError:
        # A forked child keeps the socket of a process that was killed, and never answers.
        return silent if Path(f"/proc/{process}").exists() else None
    except (OSError, http.client.HTTPException, ValueError, KeyError):
        return None


def user_jobs(sockets: Path = _SOCKETS) -> list[UserJob]:
    """Return the jobs of this user."""
    jobs = [job for job in map(_job_of, _names(sockets)) if job is not None]
    return sorted(jobs, key=lambda job: job.process)


def _that_fit(wanted: str, jobs: list[UserJob]) -> list[UserJob]:
    """Return the jobs of this name; else the one of this process; else those that begin so."""
    for fits in (
        [job for job in jobs if job.name and job.name == wanted],
        [job for job in jobs if str(job.process) == wanted],
    ):
        if fits:
            return fits
    return [job for job in jobs if job.name.startswith(wanted)]


def chosen_job(wanted: str, jobs: list[UserJob]) -> UserJob:
    """Return the only job, or the one of this name, process, or beginning of a name."""
    if not jobs:
        raise BytepsError(
            "no job of this user shows its state on this machine. A job with servers shows it "
            "where its scheduler runs, one without servers where rank 0 runs. Elsewhere: start it "
            "with BYTEPS_STATUS_PORT=PORT, and then bps top HOST:PORT."
        )
    fits = _that_fit(wanted, jobs)
    if len(fits) == 1 and not fits[0].state:
        raise BytepsError(
            f"process {fits[0].process} of this user shows the state of a job, and does not "
            "answer: it stands still. Is it stopped (Ctrl-Z, SIGSTOP, a debugger), or is the "
            f"machine overloaded? `cat /proc/{fits[0].process}/status` tells its state."
        )
    if len(fits) == 1:
        return fits[0]
    lines = "\n".join(f"  {job.line()}" for job in fits or jobs)
    what = f"no job of this user fits '{wanted}'" if not fits else f"{len(fits)} jobs run here"
    raise BytepsError(
        f"{what}; choose one with --job NAME, or with the number of the process:\n"
        f"  {'job':20} {'process':>8}\n{lines}"
    )
