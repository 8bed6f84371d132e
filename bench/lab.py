"""push_pull on links of a known rate, beside Gloo and beside what the links can do at best.

    ./dev bench lab [--row 1|2|4|5|6|7] [--mbit 200,500] [--repeats 7] ...      (needs root)

Hosts are network namespaces around a bridge; `tc tbf` limits every link in both directions. The
rate B is what one plain stream of a socket reaches between two of the hosts, the better of before
and after every repeat; t_opt is the least time that any split of the work needs at B. Rows: 1, one
tensor, time / t_opt; 2, the same beside Gloo; 5, one server's link at a half and at a quarter of
the rate, which nobody declares; 6, one server's link that becomes four times as slow while the job
runs, and as fast again; 7, the gradients of real models. Rows 5 and 6 print every step. Tables go
to bench-out/lab.md and bench-out/lab.json.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.jobs import (
    Job,
    Meeting,
    has_openmpi,
    median,
    start_byteps,
    start_gloo,
    start_openmpi,
    start_sockets,
)
from harness.network import Host, LinkOptions, Network, received, remove_leftovers
from harness.programs import RESULTS, BenchError, Fleet, Sample, require_programs
from harness.report import Report, busy_seconds
from harness.shapes import load_shapes, shape_names, write_lines

SCHEDULER_PORT = 9000
GLOO_PORT = 9100
CALIBRATION_S = 1.0
ROWS = (1, 2, 4, 5, 6, 7)
BURST_HELP = (
    "of the token bucket; below 64 it cuts the kernel's large segments into packets, which costs "
    "several times the CPU; its part of the tensor is a free ride (256 KB of 100 MB: 0.3 %%)"
)


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
    """The hosts of one link rate and what runs on them."""

    def __init__(
        self, network: Network, mbit: int, arguments: argparse.Namespace, servers: int
    ) -> None:
        self.mbit = mbit
        self.arguments = arguments
        self.workers = network.hosts[: arguments.workers]
        self.servers = network.hosts[arguments.workers :][:servers]
        self.fleet = Fleet()
        self.network = network
        self.nbytes = arguments.megabytes * 1_000_000
        self.parts = [1.0] * len(self.servers)
        # Whether a server stands beside each worker, too.
        self.beside = arguments.beside or len(self.servers) < len(self.workers)
        # Between two workers: the links of servers may be made slower.
        to = self.workers[-1] if len(self.workers) > 1 else self._last
        self.sockets = start_sockets(self.fleet, [(to.place, to.address)], [self.workers[0].place])

    @property
    def _last(self) -> Host:
        return (self.servers or self.workers)[-1]

    def calibrate(self) -> float:
        """Return the goodput of one plain stream, in bytes per second."""
        nbytes = int(self.mbit * 125_000 * CALIBRATION_S)
        return nbytes / self.sockets.run(f"stream {nbytes}").seconds

    def start_byteps(self, fleet: Fleet, variant: str = "", number: int = 0) -> Job:
        """Start a job with a worker or a server on every host, the scheduler beside worker 0."""
        arguments = self.arguments
        places = list(self.servers)
        if self.beside:
            places += self.workers
        words = arguments.option + [word for word in variant.split(",") if word]
        options = dict(word.split("=", 1) for word in words)
        return start_byteps(
            fleet,
            Meeting(self.workers[0].address, SCHEDULER_PORT + number),
            self.workers[0].place,
            [host.place for host in places],
            [host.place for host in self.workers],
            options,
            ranks=arguments.ranks,
        )

    def start_gloo(self, fleet: Fleet) -> Job:
        """Start a Gloo ring on the workers' hosts."""
        return start_gloo(
            fleet,
            Meeting(self.workers[0].address, GLOO_PORT),
            [host.place for host in self.workers for _ in range(self.arguments.ranks)],
            "eth0",
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
        bound = self.bound(nbytes, goodput)
        series.ratios.append(sample.seconds / bound)
        series.seconds.append(sample.seconds)
        series.cpu_seconds.append(sample.cpu_seconds)
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


def run_row_1_and_2(lab: Lab, report: Report, say: Callable[[str], None], peers: bool) -> None:
    """One tensor, byteps and (row 2) its peers in turn."""
    size = f"{lab.arguments.megabytes} MB"
    with Fleet() as fleet, tempfile.TemporaryDirectory() as folder:
        variants = ["", *lab.arguments.variant]
        jobs = [lab.start_byteps(fleet, variant, i) for i, variant in enumerate(variants)]
        names = [f"{size} {variant}".strip() for variant in variants]
        if peers:
            jobs += start_peers(lab, fleet, Path(folder))
        names += [size] * (len(jobs) - len(names))
        all_series = measure_in_turn(lab, jobs, names, say)
    ours = all_series[0]
    for series in all_series:
        add(report, lab, 1 if series.kind == ours.kind else 2, series, lab.nbytes)
    for series in all_series[len(variants) :]:
        pairs = zip(ours.seconds, series.seconds, strict=True)
        ratios = [a / b for a, b in pairs]
        add(report, lab, 2, Series(size, f"byteps / {series.kind}", ratios), lab.nbytes)


def start_peers(lab: Lab, fleet: Fleet, folder: Path) -> list[Job]:
    """Start the peers that are there, with as many ranks on each host as byteps has."""
    peers = [lab.start_gloo(fleet)]
    if lab.arguments.ranks == 1 and has_openmpi():
        peers.append(lab.start_openmpi(fleet, folder))
    return peers


def run_row_4(network: Network, mbit: int, arguments: argparse.Namespace, report: Report) -> None:
    """One tensor with 0 to n servers on hosts of their own; the peers have none."""
    size = f"{arguments.megabytes} MB"
    for servers in range(arguments.servers + 1):
        lab = Lab(network, mbit, arguments, servers)
        with lab.fleet, Fleet() as fleet, tempfile.TemporaryDirectory() as folder:
            jobs = [lab.start_byteps(fleet)]
            if servers == 0:
                jobs += start_peers(lab, fleet, Path(folder))
            for series in measure_in_turn(lab, jobs, [size] * len(jobs), report.say):
                add(report, lab, 4, series, lab.nbytes)


PARTS = (0.5, 0.25)
FIRST_STEPS = 10


def run_row_5(lab: Lab, report: Report, say: Callable[[str], None]) -> None:
    """One slow server that nobody declares; what counts comes after the first ten steps."""
    slow = lab.servers[0]
    for part in PARTS:
        lab.set_part(slow, part)
        with Fleet() as fleet:
            variants = ["", *lab.arguments.variant]
            jobs = [lab.start_byteps(fleet, variant, i) for i, variant in enumerate(variants)]
            for job, variant in zip(jobs, variants, strict=True):
                name = f"one server at {part} {variant}".strip()
                series = Series(name, job.kind)
                first = Series(f"{name}, first {FIRST_STEPS} steps", job.kind)
                lab.take_steps(job, first, FIRST_STEPS, say)
                lab.take_steps(job, series, lab.arguments.repeats, say)
                for one in (first, series):
                    add(report, lab, 5, one, lab.nbytes)
    lab.set_part(slow, 1)


def run_row_6(lab: Lab, report: Report, say: Callable[[str], None]) -> None:
    """A link that changes while the job runs: the steps after each change."""
    slow = lab.servers[-1]
    with Fleet() as fleet:
        job = lab.start_byteps(fleet)
        lab.take_steps(job, Series("warm-up", job.kind), FIRST_STEPS, say)
        for what, part in (("slower", 0.25), ("as fast again", 1.0)):
            lab.set_part(slow, part)
            change = Series(f"a server becomes {what}, steps 1 to 5", job.kind)
            after = Series(f"a server becomes {what}, from step 6", job.kind)
            lab.take_steps(job, change, 5, say)
            lab.take_steps(job, after, lab.arguments.repeats, say)
            for one in (change, after):
                add(report, lab, 6, one, lab.nbytes)


def run_row_7(lab: Lab, report: Report, say: Callable[[str], None]) -> None:
    """The gradients of real models, all tensors of a step at once."""
    for model in lab.arguments.models.split(","):
        shapes = load_shapes(model)
        with Fleet() as fleet, tempfile.TemporaryDirectory() as folder:
            lines = Path(folder) / model
            write_lines(shapes, lines)
            job = lab.start_byteps(fleet)
            series = Series(model, job.kind)
            for repeat in range(-1, lab.arguments.repeats):
                kept = series if repeat >= 0 else Series("warm-up", job.kind)
                lab.measure(job, model, f"@{lines}", kept, shapes.nbytes)
                say(f"{lab.mbit} Mbit/s, {model}, {kept.kind}: {kept.ratios[-1]:.3f} t_opt")
        add(report, lab, 7, series, shapes.nbytes)


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


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench lab",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--row",
        type=int,
        action="append",
        choices=ROWS,
        help="may be repeated; default: all",
    )
    parser.add_argument("--mbit", default="200,500", help="link rates")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--servers", type=int, default=4, help="hosts that only sum")
    parser.add_argument(
        "--beside", action="store_true", help="a server beside each worker, too, in any case"
    )
    parser.add_argument(
        "--ranks",
        type=int,
        default=1,
        help="workers on each worker host; t_opt counts a host once, however many it has",
    )
    parser.add_argument("--megabytes", type=int, default=100, help="rows 1 to 6")
    parser.add_argument("--models", default=",".join(shape_names()), help="row 7")
    parser.add_argument("--congestion", default="cubic", help="of every host")
    parser.add_argument("--mtu", type=int, default=1500)
    parser.add_argument("--burst-kb", type=int, default=256, help=BURST_HELP)
    parser.add_argument("--queue-ms", type=int, default=20, help="of a port")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="BYTEPS_NAME=VALUE",
        help="for the byteps job",
    )
    parser.add_argument(
        "--variant",
        action="append",
        default=[],
        metavar="BYTEPS_NAME=VALUE,...",
        help="a further byteps job with these options, in turn with the others",
    )
    parser.add_argument("--output", default=str(RESULTS / "lab"), help="without ending")
    return parser.parse_args()


def run_rate(mbit: int, arguments: argparse.Namespace, report: Report) -> None:
    """All wanted rows at one link rate."""
    rows = set(arguments.row or ROWS)
    options = LinkOptions(
        mbit, arguments.mtu, arguments.burst_kb, arguments.queue_ms, arguments.congestion
    )
    with Network(arguments.workers + arguments.servers, options) as network:
        if 4 in rows:
            run_row_4(network, mbit, arguments, report)
        lab = Lab(network, mbit, arguments, arguments.servers)
        with lab.fleet:
            if rows & {1, 2}:
                run_row_1_and_2(lab, report, report.say, peers=2 in rows)
            if 5 in rows:
                run_row_5(lab, report, report.say)
            if 6 in rows:
                run_row_6(lab, report, report.say)
            if 7 in rows:
                run_row_7(lab, report, report.say)


def end_on_signals() -> None:
    """Let signals end this in order: what was set up is taken down again."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


def describe(arguments: argparse.Namespace) -> dict[str, Any]:
    shown = dict(vars(arguments))
    shown.pop("output")
    return shown


def main() -> int:
    arguments = parse_arguments()
    require_programs()
    if os.geteuid() != 0:
        print("bench lab: network namespaces need root; run it with sudo", file=sys.stderr)
        return 2
    end_on_signals()
    remove_leftovers()
    report = Report("Lab: push_pull on limited links", arguments.output, describe(arguments))
    try:
        for mbit in arguments.mbit.split(","):
            run_rate(int(mbit), arguments, report)
    except BenchError as error:
        print(f"bench lab: {error}", file=sys.stderr)
        return 1
    finally:
        report.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
