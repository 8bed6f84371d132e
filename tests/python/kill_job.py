"""A real job in which processes are killed or frozen, and what its workers tell of each round.

Used by the tests and by `./dev bench kills`. One thread; every wait has a limit.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from processes import LIMIT_S, TOKEN_VARIABLE, carriers, clean_environment, environment_of
from rank_programs import rank_program

WORKER = rank_program("kills")


class HangError(AssertionError):
    """What was waited for did not come within the limit."""


@dataclass
class Round:
    """One round as one worker saw it; times are of the monotonic clock."""

    step: int
    begin_s: float
    end_s: float
    check_s: float  # what looking at the sum took after the end
    receipt: list[int]
    digest: str
    wrong: str
    members: list[int]


@dataclass
class WorkerLog:
    """What one worker has told."""

    rank: int
    pid: int
    rounds: list[Round] = field(default_factory=list)
    error: str = ""
    error_text: str = ""
    left: bool = False

    def completed_after(self, moment_s: float) -> int:
        """Return how many rounds ended after the moment."""
        return sum(1 for entry in reversed(self.rounds) if entry.end_s > moment_s)


class KillJob:
    """`bps run` with workers that sum without end. Leaving the context ends everything."""

    def __init__(
        self,
        folder: Path,
        nbytes: int = 1 << 20,
        workers: int = 4,
        servers: int = 4,
        options: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        launcher: Callable[[Path], list[str]] | None = None,
    ) -> None:
        """Start the job; `launcher` gives another command than `bps run`, from the socket."""
        self.token = uuid.uuid4().hex
        self.logs: dict[int, WorkerLog] = {}
        self.out = ""
        self.err = ""
        self._texts = {"out": b"", "err": b""}
        self._selector = selectors.DefaultSelector()
        self._links: dict[socket.socket, WorkerLog | None] = {}
        self._rests: dict[socket.socket, bytes] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        path = folder / f"{self.token[:8]}.sock"
        self._listener.bind(str(path))
        self._listener.listen()
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        counts = ["-np", str(workers), "--servers", str(servers)]
        command = [sys.executable, "-m", "byteps.cli", "run", "--grace", "1", *counts, *options]
        command += [sys.executable, WORKER, str(path), str(nbytes)]
        if launcher is not None:
            command = launcher(path)
        one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command,
            env={
                **clean_environment(),
                **one_thread,
                **(environment or {}),
                TOKEN_VARIABLE: self.token,
            },
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.workers = workers
        self._register_output()
        self._ended = os.pidfd_open(self.process.pid)
        self._selector.register(self._ended, selectors.EVENT_READ, self._selector.unregister)

    def __enter__(self) -> KillJob:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()  # the launcher's guard ends the rest
            self.process.wait()
        for process in carriers(self.token):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        for link in self._links:
            link.close()
        self._listener.close()
        self._selector.close()
        os.close(self._ended)

    # Events.

    def _register_output(self) -> None:
        for name, stream in (("out", self.process.stdout), ("err", self.process.stderr)):
            assert stream is not None

            def read(source: Any, name: str = name) -> None:
                data = os.read(source.fileno(), 1 << 16)
                if not data:
                    self._selector.unregister(source)
                self._texts[name] += data
                setattr(self, name, self._texts[name].decode(errors="replace"))

            self._selector.register(stream, selectors.EVENT_READ, read)

    def _accept(self, listener: Any) -> None:
        link, _ = listener.accept()
        self._links[link] = None
        self._rests[link] = b""
        self._selector.register(link, selectors.EVENT_READ, self._read)

    def _read(self, link: Any) -> None:
        try:
            data = link.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        if not data:
            self._selector.unregister(link)
            return
        *lines, self._rests[link] = (self._rests[link] + data).split(b"\n")
        for line in lines:
            self._take(link, json.loads(line))

    def _take(self, link: socket.socket, words: dict[str, Any]) -> None:
        log = self._links[link]
        if log is None:
            log = self._links[link] = self.logs[words["rank"]] = WorkerLog(**words)
        elif "error" in words:
            log.error, log.error_text = words["error"], words["text"]
        elif "left" in words:
            log.left = True
        else:
            for name in ("begin", "end", "check"):
                words[f"{name}_s"] = words.pop(name) * 1e-9
            log.rounds.append(Round(**words))

    def wait(self, what: Callable[[], bool], text: str, limit_s: float = LIMIT_S) -> None:
        """Handle events until something is the case; HangError after the limit."""
        deadline = time.monotonic() + limit_s
        while not what():
            left = deadline - time.monotonic()
            if left <= 0:
                raise HangError(f"{text}: not within {limit_s} s\n{self.describe()}")
            for key, _ in self._selector.select(min(left, 0.2)):
                key.data(key.fileobj)

    def run_for(self, seconds: float) -> None:
        """Handle events for a while."""
        end = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() >= end, "the clock", seconds + 1)

    def describe(self) -> str:
        """Return all that is known, for a person."""
        logs = [
            f"rank {log.rank} (process {log.pid}): {len(log.rounds)} rounds, left={log.left} "
            f"{log.error} {log.error_text} last={log.rounds[-1:]}"
            for log in self.logs.values()
        ]
        return "\n".join([*logs, "stdout:", self.out[-4000:], "stderr:", self.err[-8000:]])

    # What tests do.

    def survivors(self) -> list[WorkerLog]:
        """Return the workers that no error has ended and whose processes live."""
        return [log for log in self.logs.values() if not log.error and self.is_alive(log.pid)]

    @staticmethod
    def is_alive(pid: int) -> bool:
        """Return whether the process is neither gone nor a zombie."""
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        return state not in "ZX"

    def warm_up(self, rounds: int = 3, limit_s: float = LIMIT_S) -> None:
        """Wait until every worker has done some rounds."""
        self.wait(
            lambda: (
                len(self.logs) == self.workers
                and all(len(log.rounds) >= rounds for log in self.logs.values())
            ),
            "the first rounds",
            limit_s,
        )

    def go_on(
        self, ranks: list[int], after_s: float, rounds: int = 2, limit_s: float = LIMIT_S
    ) -> None:
        """Wait until workers have completed rounds after a moment."""
        self.wait(
            lambda: all(self.logs[rank].completed_after(after_s) >= rounds for rank in ranks),
            f"{rounds} rounds of ranks {ranks} after the moment {after_s:.3f}",
            limit_s,
        )

    def process_of(self, label: str) -> int:
        """Return the live process of a label of the launcher: worker 1, server 0, scheduler."""
        role, _, number = label.partition(" ")
        if role == "worker":
            return self.logs[int(number)].pid
        for pid in sorted(carriers(self.token), reverse=True):
            variables = environment_of(pid)
            if variables.get("DMLC_ROLE") == role and variables.get("DMLC_RANK", "") == number:
                return pid
        raise AssertionError(f"{label} does not run\n{self.describe()}")

    def send(self, label: str, number: int) -> float:
        """Send a signal to a process; return when."""
        pid = self.process_of(label)
        moment = time.monotonic()
        os.kill(pid, number)
        return moment

    def wait_for_restart(self, label: str, old_pid: int) -> int:
        """Wait until another process has the label; return it."""

        def is_new() -> bool:
            with contextlib.suppress(AssertionError):
                return self.process_of(label) != old_pid
            return False

        self.wait(is_new, f"{label} again")
        return self.process_of(label)

    def wait_for_message(self, text: str) -> None:
        """Wait until the launcher has said this; it may hear of a loss later than the workers."""
        self.wait(lambda: text in self.err, f"'{text}'")

    def stop(self, limit_s: float = LIMIT_S) -> int:
        """Ask the workers to stop, wait for the end, return the exit code."""
        for link, log in self._links.items():
            if log is not None:
                with contextlib.suppress(OSError):
                    link.send(b".")
        return self.wait_for_end(limit_s)

    def wait_for_end(self, limit_s: float = LIMIT_S) -> int:
        """Wait until the launcher has ended and all output was read; return the exit code."""
        self.wait(lambda: self.process.poll() is not None, "the end of the job", limit_s)
        sources = (self.process.stdout, self.process.stderr)
        self.wait(
            lambda: not any(s in [k.fileobj for k in self._all_keys()] for s in sources),
            "the end of the output",
        )
        code = self.process.returncode
        assert code is not None
        return code

    def _all_keys(self) -> list[selectors.SelectorKey]:
        return list(self._selector.get_map().values())

    def messages(self) -> list[str]:
        """Return what the launcher has said."""
        lines = self.err.splitlines()
        return [line.removeprefix("[bps] ") for line in lines if line.startswith("[bps] ")]

    # What must always hold.

    def wrong_sums(self) -> list[str]:
        """Return the rounds whose sums do not fit what went in."""
        return [
            f"rank {log.rank}, round {entry.step}: {entry.wrong}"
            for log in self.logs.values()
            for entry in log.rounds
            if entry.wrong
        ]

    def disagreements(self) -> list[str]:
        """Return the rounds that two members ended differently."""
        seen: dict[int, tuple[int, str]] = {}
        found = []
        # A worker that was lost may hold a result that nobody else has seen.
        for log in [log for log in self.logs.values() if not self._was_lost(log)]:
            for entry in log.rounds:
                rank, digest = seen.setdefault(entry.step, (log.rank, entry.digest))
                if digest != entry.digest:
                    found.append(
                        f"round {entry.step}: rank {rank} has {digest}, "
                        f"rank {log.rank} has {entry.digest}"
                    )
        return found

    def _was_lost(self, log: WorkerLog) -> bool:
        silent = not log.left and not log.error and not self.is_alive(log.pid)
        return silent or log.error == "EvictedError"

    def gaps(self) -> list[str]:
        """Return the workers that have not done every round once, in order."""
        return [
            f"rank {log.rank}"
            for log in self.logs.values()
            if [entry.step for entry in log.rounds] != list(range(len(log.rounds)))
        ]

    def leftovers(self) -> dict[int, str]:
        """Return the processes of the job that still run."""
        return {pid: text for pid, text in carriers(self.token).items() if self.is_alive(pid)}
