"""push_pull over a path that is long and loses packets, beside plain sockets on the same path.

    ./dev bench long_paths [--congestion cubic,bbr] [--rtt-ms 50] [--loss 1] ...      (needs root)

One worker and one server, with a router between them that delays and loses packets
(bench/long_path.cc). Two ratios: what an exchange carries in each direction beside what TCP's
payload can be of the link (1448 of the 1518 bytes of a frame), and beside the best of the plain
sockets in the same repeat, which exchange as many bytes both ways over several connections. All
take turns. Each has a short run that does not count right before the one that does, because
connections that have been idle begin slowly. `--congestion` is what the hosts use by default. At
last the path becomes ten times as long while the job runs, and every step is printed. Tables go to
bench-out/long_paths.md and .json.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from harness.command import end_on_signals, settings_of
from harness.jobs import Job, Meeting, median, start_byteps
from harness.long_path import LongPath, PathOptions, start_plain
from harness.network import remove_leftovers
from harness.programs import BENCH_LONG_PATH, RESULTS, BenchError, Fleet, require_programs
from harness.report import Report, busy_seconds

PORT = 9200
CHANGE_S = 15.0
SLOW_RUN_S = 8.0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench long_paths",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--congestion", default="cubic,bbr", help="what the hosts use by default")
    parser.add_argument("--sockets", default="1,4,16,64", help="plain ones, at the same time")
    parser.add_argument("--mbit", type=int, default=500)
    parser.add_argument("--rtt-ms", type=float, default=50)
    parser.add_argument("--loss", type=float, default=1, help="packets of a thousand")
    parser.add_argument("--queue-ms", type=float, default=50)
    parser.add_argument("--megabytes", type=int, default=200, help="of one tensor")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--change", default="10,100", help="round trips in ms; empty: no change")
    parser.add_argument(
        "--variant",
        action="append",
        default=[],
        metavar="BYTEPS_NAME=VALUE,...",
        help="a further byteps job with these options",
    )
    parser.add_argument("--output", default=str(RESULTS / "long_paths"), help="without ending")
    return parser.parse_args()


def path_options(arguments: argparse.Namespace, rtt_ms: float) -> PathOptions:
    return PathOptions(arguments.mbit, rtt_ms, arguments.loss, arguments.queue_ms)


def start_job(fleet: Fleet, path: LongPath, variant: str, number: int) -> Job:
    worker, server = path.hosts
    options = dict(word.split("=", 1) for word in variant.split(",") if word)
    meeting = Meeting(worker.address, PORT + number)
    return start_byteps(fleet, meeting, worker.place, [server.place], [worker.place], options)


def measure(arguments: argparse.Namespace, congestion: str, report: Report) -> None:
    """One row for each job."""
    options = path_options(arguments, arguments.rtt_ms)
    nbytes = arguments.megabytes * 1_000_000
    with LongPath(2, options) as path, Fleet() as fleet:
        path.set_congestion(congestion)
        jobs = {
            f"{n} plain": start_plain(fleet, path, int(n)) for n in arguments.sockets.split(",")
        }
        plain = set(jobs)
        for number, variant in enumerate(["", *arguments.variant]):
            jobs[f"byteps {variant}".strip()] = start_job(fleet, path, variant, number)
        ratios: dict[str, list[float]] = {name: [] for name in jobs}
        cores: dict[str, list[float]] = {name: [] for name in jobs}
        for repeat in range(arguments.repeats):
            for name, job in jobs.items():
                words = "exchange {0} 1" if name in plain else "run bytes{0} 1 {0}"
                few = nbytes // 32 * 4
                rate = few / job.run(words.format(few)).seconds
                # A job that is far below the link exchanges less, so that it ends.
                count = min(nbytes, max(few, int(rate * SLOW_RUN_S) // 4 * 4))
                busy, begin = busy_seconds(), time.monotonic()
                seconds = job.run(words.format(count)).seconds
                cores[name].append((busy_seconds() - busy) / (time.monotonic() - begin))
                ratios[name].append(count / seconds / options.payload_rate)
                report.say(f"{congestion}, {repeat}, {name}: {ratios[name][-1]:.3f} of the link")
    best = [max(ratios[name][i] for name in plain) for i in range(arguments.repeats)]
    for name, values in ratios.items():
        beside = [ours / theirs for ours, theirs in zip(values, best, strict=True)]
        report.add(
            {
                "hosts use": congestion,
                "job": name,
                "of the link": round(median(values), 3),
                "least, most": f"{min(values):.3f}, {max(values):.3f}",
                "of the best plain": round(median(beside), 3),
                "busy cores": round(median(cores[name]), 2),
            },
            {"ratios": values},
        )


def measure_change(arguments: argparse.Namespace, congestion: str, report: Report) -> None:
    """How long until the exchange has its rate again when the path becomes longer."""
    before_ms, after_ms = (float(word) for word in arguments.change.split(","))
    options = path_options(arguments, before_ms)
    nbytes = arguments.megabytes * 1_000_000 // 4
    with LongPath(2, options) as path, Fleet() as fleet:
        path.set_congestion(congestion)
        job = start_job(fleet, path, "", 0)
        for _ in range(8):
            before = job.run(f"run tensor 1 {nbytes}").seconds
        path.set_rtt(after_ms)
        begin = time.monotonic()
        steps: list[tuple[float, float]] = []
        while time.monotonic() < begin + CHANGE_S:
            sample = job.run(f"run tensor 1 {nbytes}")
            steps.append((time.monotonic() - begin, nbytes / sample.seconds / options.payload_rate))
        settled = median([ratio for _, ratio in steps[-5:]])
        back = next((at for at, ratio in steps if ratio >= 0.9 * settled), None)
        for at, ratio in steps:
            report.say(f"{congestion}, {at:.1f} s after the change: {ratio:.3f} of the link")
        report.add(
            {
                "hosts use": congestion,
                "job": f"byteps, {before_ms:.0f} ms become {after_ms:.0f}",
                "of the link": round(settled, 3),
                "least, most": f"before {nbytes / before / options.payload_rate:.3f}",
                "of the best plain": None,
                "busy cores": None,
                "seconds until 0.9 of that": None if back is None else round(back, 1),
            },
            {"steps": steps},
        )


def main() -> int:
    arguments = parse_arguments()
    require_programs()
    if not BENCH_LONG_PATH.exists():
        print(f"not built: {BENCH_LONG_PATH.name}; run: ninja -C build bench_long_path")
        return 2
    if os.geteuid() != 0:
        print("bench long_paths: network namespaces need root; run it with sudo", file=sys.stderr)
        return 2
    end_on_signals()
    remove_leftovers()
    report = Report("Long paths: push_pull with loss", arguments.output, settings_of(arguments))
    try:
        for congestion in arguments.congestion.split(","):
            measure(arguments, congestion, report)
            if arguments.change:
                measure_change(arguments, congestion, report)
    except BenchError as error:
        print(f"bench long_paths: {error}", file=sys.stderr)
        return 1
    finally:
        report.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
