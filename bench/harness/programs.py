"""Programs that take a command line by line and answer each with a line of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, cast

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BENCH_BUILD", str(REPOSITORY / "build")))
RESULTS = REPOSITORY / "bench-out"

BENCH_SOCKET = BUILD / "bench" / "bench_socket"
BENCH_LONG_PATH = BUILD / "bench" / "bench_long_path"
BENCH_KERNELS = BUILD / "bench" / "bench_kernels"
BENCH_DEVICE_STEP = BUILD / "tests" / "cuda_standin" / "bench_device_step"
BENCH_DEVICE_WAYS = BUILD / "tests" / "cuda_standin" / "bench_device_ways"
# Relative to a build folder, because another one may be measured beside.
BENCH_PUSH_PULL = Path("bench/bench_push_pull")
BPS_SERVER = Path("apps/bps-server")
BPS_SCHEDULER = Path("apps/bps-scheduler")
LIBRARY_FOLDER = Path("src/session")
GLOO_BENCH = REPOSITORY / "bench" / "gloo_bench.py"
EMULATED_WORKER = REPOSITORY / "bench" / "emulated_worker.py"
BITS_WORKER = REPOSITORY / "bench" / "bits_worker.py"
MODEL_WORKER = REPOSITORY / "bench" / "model_worker.py"
BENCH_OPENMPI = BUILD / "bench" / "bench_openmpi"

ANSWER_LIMIT_S = 600.0
END_LIMIT_S = 5.0


class BenchError(Exception):
    """A benchmark cannot go on."""


@dataclass
class Place:
    """Where a program runs: words before its command, and what it adds to the environment."""

    prefix: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


class Program:
    """One process, its commands and its answers."""

    def __init__(
        self, name: str, place: Place, command: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self._rest = b""
        self.process = subprocess.Popen(
            [*place.prefix, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment, **place.environment},
        )

    def tell(self, line: str) -> None:
        """Give a command."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise BenchError(f"{self.name} has ended early") from None

    def answer(self, limit_s: float = ANSWER_LIMIT_S) -> dict[str, Any]:
        """Wait for the next line of JSON."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + limit_s
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise BenchError(f"{self.name} has not answered within {limit_s:.0f} s")
                data = os.read(self.process.stdout.fileno(), 1 << 16)
                if not data:
                    raise BenchError(f"{self.name} ended with {self.process.wait()}")
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return cast("dict[str, Any]", json.loads(line))

    def cpu_seconds(self) -> float:
        """Return what the process, with threads that have ended, has used so far."""
        # The CPU clock of another process, as clock_getcpuclockid(3) makes it: /proc counts ticks
        # of 10 ms, too coarse for runs of some ms.
        return time.clock_gettime((~self.process.pid << 3) | 2)


class Fleet:
    """Programs that end together, whatever happens."""

    def __init__(self) -> None:
        self._programs: list[Program] = []

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def start(
        self,
        name: str,
        place: Place,
        command: Sequence[str | Path],
        environment: Mapping[str, str] | None = None,
    ) -> Program:
        """Start a program that ends with the fleet."""
        program = Program(name, place, [str(word) for word in command], environment or {})
        self._programs.append(program)
        return program

    def end(self) -> None:
        """End all: by the end of their input, then by signals."""
        for program in self._programs:
            assert program.process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                program.process.stdin.close()
        deadline = time.monotonic() + END_LIMIT_S
        # The last ones first: a worker leaves in order before its servers are stopped.
        for program in reversed(self._programs):
            for number in (None, signal.SIGTERM, signal.SIGKILL):
                if number is not None:
                    program.process.send_signal(number)
                elif not program.name.startswith(("worker", "gloo", "openmpi", "client")):
                    continue
                try:
                    program.process.wait(max(0.5, deadline - time.monotonic()))
                    break
                except subprocess.TimeoutExpired:
                    continue
            assert program.process.stdout is not None
            program.process.stdout.close()
        self._programs.clear()


@dataclass
class Sample:
    """One run of one case by all programs of a job together."""

    seconds: float
    cpu_seconds: float
    answers: list[dict[str, Any]]


def run_together(
    programs: Sequence[Program], line: str, helpers: Sequence[Program] = (), iterations: int = 1
) -> Sample:
    """Give all the same command; time from the first begin to the last end."""
    helper_cpu = -sum(helper.cpu_seconds() for helper in helpers)
    for program in programs:
        program.tell(line)
    answers = [program.answer() for program in programs]
    helper_cpu += sum(helper.cpu_seconds() for helper in helpers)
    wrong = sum(answer["wrong"] for answer in answers)
    if wrong:
        raise BenchError(f"{line}: {wrong} wrong elements")
    begin = min(answer["begin_ns"] for answer in answers)
    end = max(answer["end_ns"] for answer in answers)
    cpu = sum(answer["cpu_seconds"] for answer in answers) + helper_cpu / iterations
    return Sample((end - begin) * 1e-9 / iterations, cpu, answers)


def require_programs(beside: Path | None = None) -> None:
    """Say what to build if something is missing, in the folder of another build, too."""
    job = (BENCH_PUSH_PULL, BPS_SERVER, BPS_SCHEDULER)
    wanted = {BUILD: [*(BUILD / program for program in job), BENCH_SOCKET, BENCH_KERNELS]}
    if beside is not None:
        wanted[beside] = [beside / program for program in job]
    for build, programs in wanted.items():
        missing = " ".join(path.name for path in programs if not path.exists())
        if missing:
            print(f"not built: {missing}; run: ninja -C {build} {missing}", file=sys.stderr)
            raise SystemExit(2)
