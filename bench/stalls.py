"""Whether the stall report names the tensor, the rank and the stage, and how soon.

    ./dev bench stalls --trials 50

In each trial another rank sleeps before one tensor until the report is there.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

WORKERS, STEPS_BETWEEN, LIMIT_S = 3, 5, 60.0
STALL_AFTER_S = 3  # the least that BYTEPS_STALL_CHECK_TIME takes
REPORT = re.compile(
    r"stalled for .*: 1 tensor, 'byteps\.planted\.(\d+)'; ranks ([\d, and]+) have begun and each "
    r"waits for the sum; rank (\d) has not begun\. worker (\d) "
)


def work(folder: Path, trials: int) -> None:
    """Be a worker: some steps, then a tensor to which one rank does not come until it is told."""
    import array

    from byteps.common.request import Request
    from byteps.common.session.session import Session
    from byteps.common.types import DataType, Operation

    session = Session()
    data = array.array("f", [1.0] * 1000)
    address, count = data.buffer_info()

    def exchange(name: str) -> None:
        request = Request(name, Operation.AVERAGE, DataType.FLOAT32, [count], address, address)
        operation = session.start(request)
        session.wait(operation)
        session.release(operation)

    for trial in range(trials):
        for _ in range(STEPS_BETWEEN):
            exchange("gradient")
        if trial % WORKERS == session.rank:
            (folder / f"planted{trial}").write_text(str(time.monotonic()))
            until = time.monotonic() + LIMIT_S
            while not (folder / f"seen{trial}").exists() and time.monotonic() < until:
                time.sleep(0.01)
        exchange(f"planted.{trial}")
    session.shutdown()


def measure(trials: int, servers: int) -> list[float]:
    """Return for each trial the seconds from the limit to the report; end at a wrong report."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "byteps.cli", "run", "-np", str(WORKERS)]
        command += ["--servers", str(servers)] if servers else []
        command += [sys.executable, str(Path(__file__).resolve()), "--work", name]
        job = subprocess.Popen(
            [*command, "--trials", str(trials)],
            env={**os.environ, "BYTEPS_STALL_CHECK_TIME": str(STALL_AFTER_S)},
            cwd="/",
            stderr=subprocess.PIPE,
            text=True,
        )
        assert job.stderr is not None
        limit = threading.Timer(trials * LIMIT_S, job.kill)
        limit.start()
        times: list[float] = []
        for line in job.stderr:
            at = time.monotonic()
            if "stalled for" not in line:
                continue
            found = REPORT.search(line)
            if found is not None and int(found[1]) < len(times):
                continue  # the same report again
            late = len(times) % WORKERS
            others = [str(rank) for rank in range(WORKERS) if rank != late]
            if found is None or found.groups() != (
                str(len(times)), " and ".join(others), str(late), str(late)
            ):  # fmt: skip
                job.kill()
                raise SystemExit(f"trial {len(times)} is not what is reported: {line}")
            planted = float((folder / f"planted{len(times)}").read_text())
            (folder / f"seen{len(times)}").touch()
            times.append(at - planted - STALL_AFTER_S)
        limit.cancel()
        if job.wait() != 0 or len(times) != trials:
            raise SystemExit(f"the job ended with {job.returncode} after {len(times)} reports")
        return times


def main() -> None:
    """Measure jobs with and without servers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        return work(arguments.work, arguments.trials)
    for servers in (1, 0):
        found = sorted(measure(arguments.trials, servers))
        print(
            f"{servers} servers: all {len(found)} reports name tensor, rank and stage; after the "
            f"limit of {STALL_AFTER_S} s: median {statistics.median(found):.2f} s, "
            f"worst {found[-1]:.2f} s",
            flush=True,
        )
    return None


if __name__ == "__main__":
    main()
