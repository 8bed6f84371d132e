"""The scheduler and the servers that a worker starts when no launcher of ours has started them.

In a job of another system's launcher (cluster.py) the first worker of each machine starts a guard
process (byteps.cli.services). The guard runs the machine's servers and, on the first machine, the
scheduler. If the worker dies before it has joined, the guard ends them. Afterwards they end with
the job, as everywhere: the scheduler sees the last worker go.
"""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from byteps.common.errors import RefusedError, UnavailableError
from byteps.common.job.cluster import Job, described_job, weakness_of
from byteps.common.job.launch_environment import LOOPBACK

JOINED = b"joined\n"
_STAY_S = 5.0
_AFTER_TERM_S = 10.0
_LOG = logging.getLogger("byteps")


class OwnServices:
    """What this worker has started. Only the process that has made it uses it.

    It is made when the program imports the package: who is the parent then is the launcher.
    """

    def __init__(self) -> None:
        self._guard: subprocess.Popen[bytes] | None = None
        self._launcher = os.getppid()
        self._owner = os.getpid()
        self._stays = False

    def begin(self, told: Mapping[str, str]) -> None:
        """Describe the job in the environment if another system's launcher started this process.

        Start what this process has to start for the job. Raises RefusedError for one of several
        processes whose launcher does not say enough. `told`: what such a launcher would have said,
        of ranks that the program itself has started.
        """
        job = described_job({**os.environ, **told})
        if job is None:
            return
        # Otherwise the parent may be a shell, which ends when its user leaves.
        has_launcher = not told or multiprocessing.parent_process() is not None
        if has_launcher:
            self._check_launcher(job)
        _check_address(job)
        os.environ.update(job.variables)
        weakness = weakness_of(os.environ.get("BYTEPS_JOB_SECRET", ""))
        if weakness and job.has_scheduler and job.variables["DMLC_NUM_WORKER"] != "1":
            _LOG.warning("%s.", weakness)
        if has_launcher:
            _end_with_launcher()
        self._stays = job.ends_leftovers
        if job.has_scheduler or job.servers:
            self._guard = _start_guard(job)

    def _check_launcher(self, job: Job) -> None:
        """Refuse a job whose launcher has ended: nobody would end what is left of it.

        A process that a worker has forked has another parent, and no launcher of its own.
        """
        if os.getpid() == self._owner and os.getppid() != self._launcher:
            raise RefusedError(
                f"the launcher of this process ({job.launcher}; process {self._launcher}) has "
                "ended before bps.init(), so the other processes of the job end, too. Look at what "
                "the launcher has printed, and start the job again."
            )

    def joined(self) -> None:
        """Say that this worker is in its job: from now on the job decides when services end."""
        if self._guard is not None and self._guard.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._guard.stdin.write(JOINED)

    def wait(self) -> None:
        """Wait a while for the other ranks, which need the services; then leave these alone.

        Slurm ends what the tasks of a machine leave behind. Under other launchers this process ends
        at once, and its exit code is known at once.
        """
        guard, self._guard = self._guard, None
        if guard is None or os.getpid() != self._owner or not self._stays:
            return
        try:
            guard.wait(_STAY_S)
        except subprocess.TimeoutExpired:
            _LOG.warning(
                "this process ends before the other ranks. The job's servers that it has started "
                "stay until the other ranks have ended."
            )


def _end_with_launcher() -> None:
    """End this process when its parent ends: not every launcher's processes end with it."""
    launcher = os.getppid()
    with contextlib.suppress(OSError):  # a kernel before Linux 5.3
        descriptor = os.pidfd_open(launcher)
        if os.getppid() == launcher:
            # No name of this package's threads: it starts no operations (Session.wait).
            arguments = (descriptor, os.getpid())
            threading.Thread(target=_watch, args=arguments, name="launcher", daemon=True).start()


def _watch(launcher: int, own: int) -> None:
    poller = select.poll()
    poller.register(launcher, select.POLLIN)
    poller.poll()
    os.kill(own, signal.SIGTERM)
    threading.Event().wait(_AFTER_TERM_S)  # of a program that saves a checkpoint, or hangs
    os.kill(own, signal.SIGKILL)


def _check_address(job: Job) -> None:
    """Refuse a job whose first machine is known by a name or an address that cannot be right."""
    host = job.variables.get("DMLC_PS_ROOT_URI", LOOPBACK)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        if job.names_come_late:
            return  # the library asks again and again
        raise RefusedError(
            f"the machine of rank 0, {host}, cannot be found: {error.strerror}. Set MASTER_ADDR to "
            "a name or an address of this machine that all machines know, for all processes."
        ) from error
    if not (job.guessed_host and job.has_scheduler):
        return
    try:
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
    except OSError as error:
        raise RefusedError(
            f"{job.launcher} runs on {host}, and rank 0 runs on another machine "
            f"({socket.gethostname()}), so the other ranks cannot know where to meet. Set "
            f"MASTER_ADDR to the name of rank 0's machine: mpirun -x "
            f"MASTER_ADDR={socket.gethostname()} ..."
        ) from error


def _own_name(job: Job) -> str:
    """Return where the scheduler listens: a machine knows its own short name before others do."""
    host = job.variables.get("DMLC_PS_ROOT_URI", LOOPBACK)
    if job.names_come_late:
        try:
            socket.getaddrinfo(host, 0)
        except OSError:
            return socket.gethostname()
    return host


def _start_guard(job: Job) -> subprocess.Popen[bytes]:
    task = {
        "worker": os.getpid(),
        "scheduler": job.has_scheduler,
        "servers": job.servers,
        "listen": _own_name(job),
    }
    package = str(Path(__file__).resolve().parents[3])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
    try:
        guard = subprocess.Popen(
            [sys.executable, "-m", "byteps.cli.services", json.dumps(task)],
            stdin=subprocess.PIPE,
            env=environment,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        raise UnavailableError(
            f"the job's servers cannot be started: {sys.executable}: {error.strerror}."
        ) from error
    return guard
