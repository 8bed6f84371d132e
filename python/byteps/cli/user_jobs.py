"""The jobs of this user on this machine: each shows its state on a local socket of this user.

The socket is that of the scheduler; without servers, that of rank 0 (src/runtime/seeing/
status_port.h). Its abstract name stands in /proc/net/unix and is gone with the process.
"""

from __future__ import annotations

import contextlib
import http.client
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from byteps.cli import local_sockets
from byteps.common.errors import BytepsError

_PREFIX = "byteps-status-"
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
        super().__init__("localhost", timeout=local_sockets.ANSWER_LIMIT_S)
        self._name = name

    def connect(self) -> None:
        self.sock = local_sockets.connect(self._name)


def _ask(name: str, path: str) -> tuple[int, str, bytes]:
    with contextlib.closing(_LocalConnection(name)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type", ""), answer.read(_PAGE_MAX)


def _job_of(name: str, process: int) -> UserJob | None:
    """Return the job that this socket shows; None: the process has ended, or another one's has."""
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


def user_jobs(sockets: Path = local_sockets.SOCKETS) -> list[UserJob]:
    """Return the jobs of this user."""
    jobs = [job for name in local_sockets.names(_PREFIX, sockets) if (job := _job_of(*name))]
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
