"""Jobs of real processes over Soft-RoCE: a scheduler, two servers and two workers.

Workers are forks of the test, which has imported everything; the rest are the programs of the
package. Workers are on hosts 1 and 2, and servers on hosts 3 and 4. The scheduler is reached
through the loopback interface, so it stays in touch with everybody, whatever happens to links.
"""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import fabric
import numpy as np
from processes import contract

import byteps.numpy as bps
from byteps.common.job.executables import find_program

# The virtual machine is slow. A test that waits longer is hung.
LIMIT_S = 90.0
SIZES = (400_000, 1000, 3)
PERIOD = 97
# So that what a test does after some rounds comes before the last one.
PACE_S = 0.1
MASKS = 256

Program = Callable[["Talk"], None]


class Talk:
    """The worker's end of the conversation with its test, in lines."""

    def __init__(self, end: socket.socket) -> None:
        self._file = end.makefile("rw", buffering=1)

    def say(self, text: str) -> None:
        self._file.write(text + "\n")

    def wanted(self) -> int:
        """Return how many rounds the test wants next; 0: none any more."""
        return int(self._file.readline() or 0)


def sum_is_right(total: np.ndarray, step: int, masks: Sequence[int]) -> bool:
    """Whether each element is the sum of one of these sets of ranks."""
    right = np.zeros(total.shape, bool)
    for mask in masks:
        right |= total == mask.bit_count() * MASKS * (step % PERIOD) + mask
    return bool(right.all())


def sums(talk: Talk) -> None:
    """Sum as long as the test wants; check each sum."""
    bps.init()
    dies_in = int(os.environ.get("TEST_DIES_IN", "0")) if bps.rank() == 1 else 0
    step = 0
    before = 3
    while count := talk.wanted():
        for _ in range(count):
            step += 1
            value = MASKS * (step % PERIOD) + (1 << bps.rank())
            masks = set()
            for size in SIZES:
                handle = bps.push_pull_async(
                    np.full(size, value, np.float32), name=f"sum {size}", average=False
                )
                if step == dies_in:
                    os.kill(os.getpid(), signal.SIGKILL)
                total = bps.synchronize(handle)
                # In the round in which a worker dies, pieces may still have it.
                allowed = [3, 1 << bps.rank()] if before == 3 else [before]
                assert sum_is_right(total, step, allowed), (step, before, np.unique(total))
                masks.add(int(total[-1]) % MASKS)
            before = min(masks)
            talk.say(f"round {step} of {before}")
            time.sleep(PACE_S)
    bps.shutdown()


def fork_and_scribble() -> None:
    """Fork as the workers of a DataLoader do; the child writes into much memory, and ends."""
    child = os.fork()
    if child == 0:
        for size in (1 << 12, 1 << 16, 1 << 20):
            [np.full(size, 255, np.uint8) for _ in range(8)]
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


class Worker:
    """A worker: a fork of the test."""

    def __init__(self, program: Program, variables: dict[str, str], log: Path) -> None:
        ours, theirs = socket.socketpair()
        self.log = log
        self.process = os.fork()
        if self.process == 0:
            ours.close()
            self._become(program, variables, theirs)
        theirs.close()
        self.lines: list[str] = []
        self._looked_at = 0
        self._rest = b""
        self._end = ours
        self._ended: int | None = None

    def _become(self, program: Program, variables: dict[str, str], end: socket.socket) -> None:
        code = 1
        try:
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.environ.clear()
            os.environ.update(variables)
            program(Talk(end))
            code = 0
        except BaseException:
            os.write(2, traceback.format_exc().encode())  # pytest has taken the place of sys.stderr
        finally:
            os._exit(code)

    def want(self, rounds: int) -> None:
        self._end.sendall(b"%d\n" % rounds)

    def wait_for_line(self, text: str) -> None:
        """Read until a line begins so, behind the one that was waited for before."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            while self._looked_at < len(self.lines):
                self._looked_at += 1
                if self.lines[self._looked_at - 1].startswith(text):
                    return
            self._end.settimeout(max(0.1, deadline - time.monotonic()))
            try:
                more = self._end.recv(1 << 16)
            except TimeoutError:
                more = b""
            assert more, f"no line {text!r}; the last: {self.lines[-3:]}\n{self.log.read_text()}"
            *whole, self._rest = (self._rest + more).split(b"\n")
            self.lines += [line.decode() for line in whole]

    def kill(self, number: int) -> None:
        os.kill(self.process, number)

    def wait(self) -> int:
        """Return the exit code; a signal is negative."""
        if self._ended is None:
            self._ended = os.waitstatus_to_exitcode(_wait_for(self.process))
        return self._ended

    def end(self) -> None:
        if self._ended is None:
            self.kill(signal.SIGKILL)
            self.wait()
        self._end.close()


def _wait_for(process: int) -> int:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return status
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    raise AssertionError(f"process {process} did not end in {LIMIT_S:.0f} s")


class Job:
    """A job with two workers and two servers. Options are those of all its processes."""

    def __init__(self, folder: Path, transport: str = "rdma", **options: str) -> None:
        self.folder = folder
        self.common = {
            **{name: os.environ[name] for name in ("PATH", "HOME")},
            **{name: os.environ[name] for name in ("IBV_DRIVERS",) if name in os.environ},
            **contract(2, 2),
            "BYTEPS_JOB_SECRET": "of this test",
            "BYTEPS_LOG_LEVEL": "info",
            "BYTEPS_SHARED_LINKS": "0",  # the hosts are one machine
            "BYTEPS_TRANSPORT": transport,
            "BYTEPS_START_TIMEOUT": "60",
            **options,
        }
        self.services: dict[str, subprocess.Popen[bytes]] = {}
        self.workers: list[Worker] = []
        self.rounds = 0

    def start_services(self, under: Sequence[str] = (), **options: str) -> None:
        self.start_scheduler()
        for number in (0, 1):
            self.start_server(number, under, **options)

    def start_scheduler(self) -> None:
        self._start("scheduler", (), {"DMLC_ROLE": "scheduler"})

    def start_server(self, number: int, under: Sequence[str] = (), **options: str) -> None:
        role = {"DMLC_ROLE": "server", "DMLC_NODE_HOST": fabric.address(3 + number)}
        self._start(f"server {number}", under, {**role, **options})

    def _start(self, name: str, under: Sequence[str], variables: dict[str, str]) -> None:
        program = str(find_program(name.split()[0]))
        with self._log(name).open("ab") as log:
            self.services[name] = subprocess.Popen(
                [*under, program], env={**self.common, **variables}, stdout=log, stderr=log, cwd="/"
            )

    def start_workers(self, program: Program = sums, **options: str) -> None:
        for number in (0, 1):
            variables = {
                **self.common,
                "DMLC_ROLE": "worker",
                "DMLC_WORKER_ID": str(number),
                "BYTEPS_INTERFACES": fabric.interface(1 + number),
                **options,
            }
            self.workers.append(Worker(program, variables, self._log(f"worker {number}")))

    def _log(self, name: str) -> Path:
        return self.folder / f"{name.replace(' ', '-')}.log"

    def said(self, name: str) -> str:
        return self._log(name).read_text()

    def all_said(self) -> str:
        return "\n".join(f"== {log.stem}\n{log.read_text()}" for log in self.folder.glob("*.log"))

    def run(self, rounds: int, workers: Sequence[int] = (0, 1)) -> None:
        """Let workers sum so many times, and wait until they have."""
        self.begin(rounds, workers)
        self.wait(workers)

    def begin(self, rounds: int, workers: Sequence[int] = (0, 1)) -> None:
        self.rounds += rounds
        for number in workers:
            self.workers[number].want(rounds)

    def wait(self, workers: Sequence[int] = (0, 1), before_end: int = 0) -> None:
        """Wait for the last round that was begun, or for one so far before it."""
        for number in workers:
            self.workers[number].wait_for_line(f"round {self.rounds - before_end} ")

    def kill(self, name: str) -> None:
        self.services[name].kill()
        self.services[name].wait(LIMIT_S)

    def stop(self, workers: Sequence[int] = (0, 1), services: Sequence[str] = ()) -> None:
        """Let all end in order."""
        for number in workers:
            self.workers[number].want(0)
        for number in workers:
            assert self.workers[number].wait() == 0, self.all_said()
        for name in services or self.services:
            assert self.services[name].wait(LIMIT_S) == 0, self.all_said()

    def end(self) -> None:
        for worker in self.workers:
            worker.end()
        for process in self.services.values():
            if process.poll() is None:
                process.kill()
            process.wait()


def digest(arrays: Sequence[np.ndarray]) -> str:
    state = hashlib.sha256()
    for array in arrays:
        state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()
