"""Hosts with links of a known rate, the jobs that run on them, and what their steps take."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.jobs import (
    Job,
    Meeting,
    median,
    start_byteps,
    start_gloo,
    start_openmpi,
    start_sockets,
)
from harness.network import Host, Network, received
from harness.programs import GLOO_BENCH, Fleet, Sample
from harness.report import Report, busy_seconds

SCHEDULER_PORT = 9000
GLOO_PORT = 9100
CALIBRATION_S = 1.0


@dataclass
class Series:
    """The repeats of one case at one rate."""

    name: str
    kind: str
    ratios: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    busy_cores: list[float] = field(default_factory=list)
    goodput_mbit: list[float] = field(default_factory=list)
    imbalance: list[float] = field(default_factory=list)

    def take(self, ratio: float, sample: Sample) -> None:
        """Keep a run."""
        self.ratios.append(ratio)
        self.seconds.append(sample.seconds)
        self.cpu_seconds.append(sample.cpu_seconds)


def optimal_seconds(workers: int, servers: int, nbytes: int, bytes_per_second: float) -> float:
    """Return the least time of one push_pull over equal links.

    With fewer servers than workers a server stands beside each worker too; with none it is the
    time of a ring.
    """
    n, k = workers, servers
    if k >= n:
        # A worker's own link is the limit.
        return nbytes / bytes_per_second
    return 2 * n * (n - 1) * nbytes / ((n * n + k * n - 2 * k) * bytes_per_second)


class Lab:
    """Hosts with links of one rate, and what runs on them."""

    def __init__(
        self,
        network: Network,
        mbit: int,
        arguments: argparse.Namespace,
        workers: Sequence[Host],
        servers: Sequence[Host],
    ) -> None:
        self.mbit = mbit
        self.arguments = arguments
        self.workers = workers
        self.servers = servers
        self.fleet = Fleet()
        self.network = network
        self.nbytes = arguments.megabytes * 1_000_000
        self.parts = [1.0] * len(self.servers)
        # Whether a server stands beside each worker, too.
        self.beside = arguments.beside or len(self.servers) < len(self.workers)
        # Between two workers: the links of servers may be made slower.
        to = self.workers[-1] if len(self.workers) > 1 else (self.servers or self.workers)[-1]
        self.sockets = start_sockets(self.fleet, [(to.place, to.address)], [self.workers[0].place])

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.fleet.end()

    def smaller(self, workers: int, servers: int, ranks: int | None = None) -> Lab:
        """Return a lab of the first of these hosts, with other ranks on each worker host if that is
        said."""
        arguments = argparse.Namespace(**vars(self.arguments))
        arguments.ranks = arguments.ranks if ranks is None else ranks
        return Lab(
            self.network, self.mbit, arguments, self.workers[:workers], self.servers[:servers]
        )

    def calibrate(self) -> float:
        """Return the goodput of one plain stream, in bytes per second."""
        nbytes = int(self.mbit * 125_000 * CALIBRATION_S)
        return nbytes / self.sockets.run(f"stream {nbytes}").seconds

    def start_byteps(
        self,
        fleet: Fleet,
        variant: str = "",
        number: int = 0,
        program: Sequence[str | Path] = (),
        more: Mapping[str, str] | None = None,
    ) -> Job:
        """Start a job with a worker or a server on every host, the scheduler beside worker 0.

        `more` are options whose values may have commas.
        """
        arguments = self.arguments
        places = list(self.servers)
        if self.beside:
            places += self.workers
        words = arguments.option + [word for word in variant.split(",") if word]
        options = {**dict(word.split("=", 1) for word in words), **(more or {})}
        return start_byteps(
            fleet,
            Meeting(self.workers[0].address, SCHEDULER_PORT + number),
            self.workers[0].place,
            [host.place for host in places],
            [host.place for host in self.workers],
            options,
            ranks=arguments.ranks,
            program=program,
        )

    def start_gloo(self, fleet: Fleet, program: Sequence[str | Path] = (GLOO_BENCH,)) -> Job:
        """Start a Gloo ring on the workers' hosts."""
        return start_gloo(
            fleet,
            Meeting(self.workers[0].address, GLOO_PORT),
            [host.place for host in self.workers for _ in range(self.arguments.ranks)],
            "eth0",
            program,
        )

    def start_openmpi(self, fleet: Fleet, folder: Path) -> Job:
        """Start ranks of Open MPI on the workers' hosts."""
        return start_openmpi(fleet, [(host.place, host.address) for host in self.workers], folder)

    def set_part(self, server: Host, part: float) -> None:
        """Give a server's link this part of the rate."""
        self.network.set_rate(server, self.mbit * part)
        self.parts[self.servers.index(server)] = part

    def bound(self, nbytes: int, goodput: float) -> float:
        """Return the least time of one push_pull on the links as they are."""
        n = len(self.workers)
        if all(part == 1 for part in self.parts):
            return optimal_seconds(n, len(self.servers), nbytes, goodput)
        helpers = sum(self.parts)
        rounds = 2 * (n - 1) / (n + (1 - 2 / n) * helpers) if self.beside else n / helpers
        return nbytes / goodput * max(1.0, rounds)

    def take_steps(self, job: Job, series: Series, steps: int, say: Callable[[str], None]) -> None:
        """Run step after step of one tensor."""
        for step in range(1, steps + 1):
            self.measure(job, "tensor", str(self.nbytes), series, self.nbytes)
            say(f"{self.mbit} Mbit/s, {series.name}, {step}: {series.ratios[-1]:.3f} t*")

    def measure(self, job: Job, case: str, tensors: str, series: Series, nbytes: int) -> None:
        """Run once, beside a calibration of the same minute."""
        calibrated = self.calibrate()
        before, busy, begin = received(self.servers), busy_seconds(), time.monotonic()
        sample: Sample = job.run(f"run {case} 1 {tensors}")
        busy = (busy_seconds() - busy) / (time.monotonic() - begin)
        arrived = [after - b for after, b in zip(received(self.servers), before, strict=True)]
        # A disturbed calibration would flatter the result.
        goodput = max(calibrated, self.calibrate())
        series.take(sample.seconds / self.bound(nbytes, goodput), sample)
        series.busy_cores.append(busy)
        series.goodput_mbit.append(goodput * 8e-6)
        if arrived and job.kind == "byteps":
            series.imbalance.append(max(arrived) * len(arrived) / sum(arrived) - 1)


def measure_in_turn(
    lab: Lab, jobs: list[Job], names: list[str], say: Callable[[str], None]
) -> list[Series]:
    """One tensor by each job in turn, after a warm-up that does not count."""
    all_series = [Series(name, job.kind) for name, job in zip(names, jobs, strict=True)]
    for repeat in range(-1, lab.arguments.repeats):
        for job, series in zip(jobs, all_series, strict=True):
            kept = series if repeat >= 0 else Series("warm-up", job.kind)
            lab.measure(job, "tensor", str(lab.nbytes), kept, lab.nbytes)
            say(f"{lab.mbit} Mbit/s, {job.kind}, {kept.name}: {kept.ratios[-1]:.3f} t_opt")
    return all_series


def add(report: Report, lab: Lab, row: int, series: Series, nbytes: int) -> None:
    """Put the medians into the report."""

    def middle(values: list[float], digits: int = 3) -> float | None:
        return round(median(values), digits) if values else None

    worst = max(series.imbalance) if series.imbalance else None
    report.add(
        {
            "row": row,
            "Mbit/s": lab.mbit,
            "n, k": f"{len(lab.workers)}, {len(lab.servers)}",
            "case": series.name,
            "what": series.kind,
            "ratio": middle(series.ratios),
            "least": round(min(series.ratios), 3),
            "most": round(max(series.ratios), 3),
            "seconds": middle(series.seconds),
            "B Mbit/s": middle(series.goodput_mbit, 1),
            "CPU s": middle(series.cpu_seconds, 2),
            "busy cores": middle(series.busy_cores, 2),
            "imbalance %": None if worst is None else round(100 * worst, 2),
        },
        {"bytes": nbytes, "n": len(lab.workers), "k": len(lab.servers), **vars(series)},
    )
