"""What the engine costs without a network: kernels, and push_pull over the loopback interface.

    ./dev bench core [--repeats 7] [--jobs 1x1,2x2,4x4] [--sizes 4096,...,67108864]
                     [--beside BUILD]

Every repeat runs a case of byteps, of byteps without shared memory, of the same with BYTEPS_TLS=1,
of byteps whose workers are one member of the job (BYTEPS_LOCAL_REDUCE=1), of Gloo and of plain
sockets one after the other, so a slow moment of the machine hits all of them.
Plain sockets move the same bytes to as many servers and back, without adding anything up. CPU
seconds are of all processes of a job, servers included, per GB of gradient (bytes of the tensor
times workers). Tables go to
bench-out/core.md and bench-out/core.json, the kernels go to bench-out/kernels.json. `--beside`
takes the build folder of another revision, which is measured in turn: what a change costs.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.jobs import Job, Meeting, free_port, median, start_byteps, start_gloo, start_sockets
from harness.programs import (
    BENCH_KERNELS,
    BUILD,
    RESULTS,
    BenchError,
    Fleet,
    Place,
    require_programs,
)
from harness.report import Report

LOOPBACK = "127.0.0.1"
SIZES = "4096,65536,1048576,16777216,67108864"
# Long enough that ticks of the process clock do not matter.
BYTES_PER_RUN = 64 << 20
ITERATIONS_MAX = 200


@dataclass
class Series:
    """The repeats of one case by one kind of job."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)


def iterations_for(nbytes: int) -> int:
    """Return how often a case is repeated within one timing."""
    return max(1, min(ITERATIONS_MAX, BYTES_PER_RUN // nbytes))


def start_jobs(
    fleet: Fleet, workers: int, servers: int, arguments: argparse.Namespace
) -> list[Job]:
    """Start one job of every kind; all of them stay, only one works at a time."""
    here = Place()

    def start_build(build: Path, options: dict[str, str] | None = None, ranks: int = 1) -> Job:
        places = (here, [here] * servers, [here] * (workers // ranks))
        meeting = Meeting(LOOPBACK, free_port())
        options = {"DMLC_NODE_HOST": LOOPBACK, **(options or {})}
        return start_byteps(fleet, meeting, *places, options, build, ranks)

    def start_machine(build: Path) -> Job:
        return start_build(build, {"BYTEPS_LOCAL_REDUCE": "1"}, ranks=workers)

    tcp = {"BYTEPS_SHARED_LINKS": "0"}
    jobs = [start_build(BUILD), replace(start_build(BUILD, tcp), kind="byteps, TCP")]
    if workers > 1:
        jobs.append(replace(start_machine(BUILD), kind="byteps, one member"))
    if not arguments.no_tls:
        tls = {**tcp, "BYTEPS_TLS": "1"}
        jobs.append(replace(start_build(BUILD, tls), kind="byteps, TLS"))
    if arguments.beside is not None:
        jobs.append(replace(start_build(arguments.beside), kind="beside"))
        if workers > 1:
            jobs.append(replace(start_machine(arguments.beside), kind="beside, one member"))
    jobs.append(start_sockets(fleet, [(here, LOOPBACK)] * servers, [here] * workers))
    if not arguments.no_gloo and workers > 1:
        jobs.append(start_gloo(fleet, Meeting(LOOPBACK, free_port()), [here] * workers))
    return jobs


def run_once(job: Job, nbytes: int, series: Series | None) -> None:
    """Run one case of one job once; without a series it only warms up."""
    iterations = iterations_for(nbytes)
    if job.kind == "sockets":
        sample = job.run(f"exchange {nbytes} {iterations}", iterations)
    else:
        sample = job.run(f"run {nbytes} {iterations} {nbytes}", iterations)
    if series is not None:
        series.seconds.append(sample.seconds)
        series.cpu_seconds.append(sample.cpu_seconds)


def measure(jobs: list[Job], nbytes: int, repeats: int) -> dict[str, Series]:
    """All kinds in turn, in another order each time: who comes after TCP is slower."""
    all_series = {job.kind: Series() for job in jobs}
    for repeat in range(-1, repeats):
        for job in random.Random(repeat).sample(jobs, len(jobs)):
            run_once(job, nbytes, all_series[job.kind] if repeat >= 0 else None)
    return all_series


def add(
    report: Report, name: str, workers: int, nbytes: int, all_series: dict[str, Series]
) -> None:
    """One row of the table for every kind."""
    gigabytes = nbytes * workers / 1e9
    ours = median(all_series["byteps"].seconds)
    for kind, series in all_series.items():
        seconds = median(series.seconds)
        report.add(
            {
                "job": name,
                "bytes": nbytes,
                "what": kind,
                "time us": round(seconds * 1e6, 1),
                "MB/s a worker": round(nbytes / seconds / 1e6, 1),
                "CPU s per GB": round(median(series.cpu_seconds) / gigabytes, 3),
                "byteps time / this": round(ours / seconds, 2),
            },
            {"iterations": iterations_for(nbytes), **vars(series)},
        )


def run_kernels() -> int:
    """The kernels beside memcpy; the program prints its own table."""
    RESULTS.mkdir(exist_ok=True)
    command = [BENCH_KERNELS, "--json", RESULTS / "kernels.json"]
    return subprocess.run(command, check=False).returncode


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench core",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--jobs", default="1x1,2x2,4x4", help="workers x servers")
    parser.add_argument("--sizes", default=SIZES, help="bytes of the tensor")
    parser.add_argument("--no-kernels", action="store_true")
    parser.add_argument("--no-gloo", action="store_true")
    parser.add_argument("--no-tls", action="store_true")
    parser.add_argument("--beside", type=Path, help="build folder of another revision")
    parser.add_argument("--output", default=str(RESULTS / "core"), help="without ending")
    return parser.parse_args()


def run_jobs(arguments: argparse.Namespace, report: Report) -> None:
    """All jobs, all sizes."""
    for name in arguments.jobs.split(","):
        workers, servers = (int(word) for word in name.split("x"))
        with Fleet() as fleet:
            jobs = start_jobs(fleet, workers, servers, arguments)
            for nbytes in (int(word) for word in arguments.sizes.split(",")):
                report.say(f"{name}, {nbytes} bytes")
                add(report, name, workers, nbytes, measure(jobs, nbytes, arguments.repeats))


def main() -> int:
    arguments = parse_arguments()
    require_programs(arguments.beside)
    settings = {key: str(value) for key, value in vars(arguments).items() if key != "output"}
    code = 0 if arguments.no_kernels else run_kernels()
    report = Report("Core: push_pull over loopback", arguments.output, settings)
    try:
        run_jobs(arguments, report)
    except BenchError as error:
        print(f"bench core: {error}", file=sys.stderr)
        return 1
    finally:
        report.finish()
    return code


if __name__ == "__main__":
    sys.exit(main())
