"""What it costs to watch a job: the same job with everything off, and with what can be left on.

Jobs of all kinds follow each other again and again, so that what else the machine does hits all of
them alike; what is compared are neighbours. `--plain FOLDER` adds a kind: the package in another
folder (an older version, say), with nothing switched on.

    ./dev bench seeing --rounds 20
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

from harness.jobs import free_port

WORKERS, LIMIT_S = 2, 300
SMALL, LARGE = 1024, 1 << 20  # floats


def work(operations: int) -> None:
    """Be a worker: many small operations, 32 on their way at a time, then some large ones."""
    import array

    from byteps.common.request import Request
    from byteps.common.session.open_operations import OpenOperation
    from byteps.common.session.session import Session
    from byteps.common.types import DataType, Operation

    session = Session()
    rooms = [array.array("f", [1.0] * SMALL) for _ in range(32)]
    large = array.array("f", [1.0] * LARGE)

    def start(name: str, room: array.array[float]) -> OpenOperation:
        address, count = room.buffer_info()
        return session.start(
            Request(name, Operation.SUM, DataType.FLOAT32, [count], address, address)
        )

    def finish(operation: OpenOperation) -> None:
        session.wait(operation)
        session.release(operation)

    def some(count: int) -> None:
        for _ in range(count // len(rooms)):
            for operation in [start(f"small.{i}", room) for i, room in enumerate(rooms)]:
                finish(operation)
        for _ in range(count // 100):
            finish(start("large", large))

    some(operations // 10)
    begun, used = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    some(operations)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    print(json.dumps({"wall_s": time.monotonic() - begun, "cpu_s": cpu_s}), flush=True)
    session.shutdown()


def scrape(port: int, ended: threading.Event) -> None:
    """Ask for the metrics and the page once a second each, as Prometheus and `bps top` do."""
    while not ended.wait(1.0):
        for path in ("/metrics", "/"):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=1).read()
            except OSError:
                continue


def run_job(kind: str, arguments: argparse.Namespace) -> dict[str, float]:
    """Run one job of a kind; return the worst worker's time and the CPU of all workers."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("BYTEPS_", "DMLC_"))}
    port, ended = free_port(), threading.Event()
    if kind in ("off", "plain"):
        environment["BYTEPS_STALL_CHECK_TIME"] = "0"
    else:
        environment |= {"BYTEPS_STALL_CHECK_TIME": "60", "BYTEPS_STATUS_PORT": str(port)}
    if kind == "plain":
        environment["PYTHONPATH"] = str(arguments.plain)
        del environment["BYTEPS_STALL_CHECK_TIME"]
    if kind == "timeline":
        environment["BYTEPS_TIMELINE"] = "/tmp/byteps-bench-timeline.json"
    scraper = threading.Thread(target=scrape, args=(port, ended))
    if kind not in ("off", "plain"):
        scraper.start()
    command = [sys.executable, "-m", "byteps.cli", "run", "-np", str(WORKERS)]
    command += ["--servers", "1"] if arguments.servers else []
    command += [sys.executable, str(Path(__file__).resolve()), "--work", str(arguments.operations)]
    try:
        done = subprocess.run(
            command, env=environment, cwd="/", capture_output=True, text=True, timeout=LIMIT_S,
            check=False,
        )  # fmt: skip
    finally:
        ended.set()
        if scraper.ident is not None:
            scraper.join()
    if done.returncode != 0:
        raise SystemExit(f"a job of kind '{kind}' failed:\n{done.stderr}")
    said = [json.loads(line[line.index("{") :]) for line in done.stdout.splitlines() if "{" in line]
    return {
        "wall_s": max(one["wall_s"] for one in said),
        "cpu_s": sum(one["cpu_s"] for one in said),
    }


def compare(kinds: list[str], results: dict[str, list[dict[str, float]]]) -> None:
    """Print the median ratio of each kind to the first one, with an interval of 95 %."""
    base = kinds[0]
    for kind in kinds[1:]:
        for what in ("wall_s", "cpu_s"):
            ratios = [a[what] / b[what] for a, b in zip(results[kind], results[base], strict=True)]
            random.seed(1)
            medians = sorted(
                statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(2000)
            )
            print(
                f"{kind:>9} / {base}  {what:>6}  {statistics.median(ratios):.4f}  "
                f"[{medians[50]:.4f}, {medians[1949]:.4f}]  of {len(ratios)}"
            )


def main() -> None:
    """Compare kinds of jobs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--operations", type=int, default=6400)
    parser.add_argument("--servers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--kinds", nargs="+", default=["off", "on", "timeline"])
    parser.add_argument("--plain", type=Path, help="folder with another package `byteps`")
    parser.add_argument("--work", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        return work(arguments.work)
    kinds = (["plain"] if arguments.plain else []) + arguments.kinds
    results: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    for turn in range(arguments.rounds):
        for kind in kinds if turn % 2 == 0 else reversed(kinds):
            results[kind].append(run_job(kind, arguments))
    for kind in kinds:
        wall = statistics.median(one["wall_s"] for one in results[kind])
        cpu = statistics.median(one["cpu_s"] for one in results[kind])
        print(f"{kind:>9}  median {wall:.3f} s, CPU of the workers {cpu:.3f} s")
    compare(kinds, results)
    return None


if __name__ == "__main__":
    main()
