"""The ranks of one machine sum through shared memory: beside what memory allows, and beside Gloo.

    ./dev bench window [--ranks 4] [--sizes 4096,1048576,100000000] [--repeats 7] [--no-gloo]

Every repeat runs, one after the other, `bench_window` and Gloo's all_reduce on loopback with as
many ranks, so a slow moment of the machine hits both. A job is the same sum as an operation of a
job without servers. The bare pair is one pass of all ranks over
inputs that lie in shared memory already, each summing its share, and a copy of the whole result for
each rank; the pass is its first half. A shared job is a job whose tensors lie in shared memory
(byteps_alloc_shared). Tables go to bench-out/window.md and bench-out/window.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass, field

from harness.jobs import Job, Meeting, free_port, median, start_gloo
from harness.programs import BUILD, RESULTS, BenchError, Fleet, Place
from harness.report import Report

BENCH_WINDOW = BUILD / "bench" / "bench_window"
LOOPBACK = "127.0.0.1"
LIMIT_S = 120
# Long enough that one measurement is not a chance.
BYTES_PER_RUN = 400_000_000
ROUNDS_MAX = 1000


@dataclass
class Series:
    """The repeats of one size, in microseconds."""

    bare: list[float] = field(default_factory=list)
    window: list[float] = field(default_factory=list)
    engine: list[float] = field(default_factory=list)
    shared: list[float] = field(default_factory=list)
    one_pass: list[float] = field(default_factory=list)
    gloo: list[float] = field(default_factory=list)


def rounds_for(nbytes: int) -> int:
    """Return how often a size is repeated within one measurement."""
    return max(3, min(ROUNDS_MAX, BYTES_PER_RUN // nbytes))


def run_window(ranks: int, nbytes: int) -> dict[str, float]:
    """The medians of one run, in a process of each rank."""
    command = [BENCH_WINDOW, "--ranks", str(ranks), "--bytes", str(nbytes)]
    command += ["--rounds", str(rounds_for(nbytes))]
    result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if result.returncode != 0:
        raise BenchError(f"bench_window failed: {result.stderr.strip()}")
    return {key: float(value) for key, value in json.loads(result.stdout).items()}


def measure(arguments: argparse.Namespace, nbytes: int, gloo: Job | None) -> Series:
    """Both in turn; the first time only warms up."""
    series = Series()
    for repeat in range(-1, arguments.repeats):
        ours = run_window(arguments.ranks, nbytes)
        theirs = 0.0
        if gloo is not None:
            rounds = rounds_for(nbytes)
            theirs = gloo.run(f"run {nbytes} {rounds} {nbytes}", rounds).seconds * 1e6
        if repeat >= 0:
            series.bare.append(ours["bare_us"])
            series.window.append(ours["window_us"])
            series.engine.append(ours["engine_us"])
            series.shared.append(ours["shared_us"])
            series.one_pass.append(ours["pass_us"])
            series.gloo.append(theirs)
    return series


def add(report: Report, nbytes: int, series: Series, has_gloo: bool) -> None:
    """One row; ratios are medians of those of each repeat."""

    def to_bare(ours: list[float]) -> float:
        return round(median([one / bare for one, bare in zip(ours, series.bare, strict=True)]), 2)

    def to_gloo(ours: list[float]) -> float | None:
        ratios = [gloo / one for one, gloo in zip(ours, series.gloo, strict=True)]
        return round(median(ratios), 2) if has_gloo else None

    report.add(
        {
            "bytes": nbytes,
            "shared job us": round(median(series.shared), 1),
            "job us": round(median(series.engine), 1),
            "window us": round(median(series.window), 1),
            "bare us": round(median(series.bare), 1),
            "pass us": round(median(series.one_pass), 1),
            "Gloo us": round(median(series.gloo), 1) if has_gloo else None,
            "window / bare": to_bare(series.window),
            "Gloo / window": to_gloo(series.window),
            "job / bare": to_bare(series.engine),
            "Gloo / job": to_gloo(series.engine),
            "shared job / bare": to_bare(series.shared),
            "Gloo / shared job": to_gloo(series.shared),
            "Gloo / pass": to_gloo(series.one_pass),
        },
        vars(series),
    )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench window",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--sizes", default="4096,1048576,100000000", help="bytes of the tensor")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--no-gloo", action="store_true")
    parser.add_argument("--output", default=str(RESULTS / "window"), help="without ending")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    settings = {key: str(value) for key, value in vars(arguments).items() if key != "output"}
    report = Report("The window of one machine", arguments.output, settings)
    try:
        with Fleet() as fleet:
            gloo = None
            if not arguments.no_gloo:
                places = [Place()] * arguments.ranks
                gloo = start_gloo(fleet, Meeting(LOOPBACK, free_port()), places)
            for nbytes in (int(word) for word in arguments.sizes.split(",")):
                report.say(f"{nbytes} bytes")
                add(report, nbytes, measure(arguments, nbytes, gloo), gloo is not None)
    except BenchError as error:
        print(f"bench window: {error}", file=sys.stderr)
        return 1
    finally:
        report.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
