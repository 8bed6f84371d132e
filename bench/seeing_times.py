"""How soon the status port names who died, who stopped, and who comes 100 ms late.

./dev bench seeing_times --trials 50
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LIMIT_S, LATE_S, WORKERS = 120.0, 0.1, 6


def work(folder: Path) -> None:
    """Be a worker: step after step, and come late if the file `late` has this rank."""
    import array

    from byteps.common.request import Request
    from byteps.common.session.session import Session
    from byteps.common.types import DataType, Operation

    session = Session()
    data = array.array("f", [1.0] * 1000)
    address, count = data.buffer_info()
    late_rounds = 0  # one after the other, of this rank
    while not (folder / "end").exists():
        is_late = (folder / "late").read_text() == str(session.rank)
        time.sleep(0.02)
        if is_late:
            time.sleep(LATE_S)
        name = "gradient"
        operation = session.start(
            Request(name, Operation.AVERAGE, DataType.FLOAT32, [count], address, address)
        )
        session.wait(operation)
        session.release(operation)
        late_rounds = late_rounds + 1 if is_late else 0
        if is_late:  # in one write, and never empty
            with (folder / "rounds").open("a") as file:
                file.write(f"{late_rounds}\n")
    os._exit(0)


@contextlib.contextmanager
def running(workers: int) -> Iterator[tuple[Path, Callable[[], dict[str, Any]]]]:
    """Have a job that goes on while one worker is left; yield its folder and how to ask it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="seeing"))
    (folder / "late").write_text("none")
    # Who stops is shown, and not given up.
    told = {"BYTEPS_STATUS_PORT": str(port), "BYTEPS_EVICTION_TIMEOUT_MS": "60000"}
    told |= {"BYTEPS_HEARTBEAT_TIMEOUT_MS": "60000"}
    command = [sys.executable, "-m", "byteps.cli", "run", "-np", str(workers), "--servers", "1"]
    command += ["--min-np", "1", sys.executable, str(Path(__file__).resolve())]
    process = subprocess.Popen(
        [*command, "--work", str(folder)], env={**os.environ, **told}, cwd="/",
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def ask() -> dict[str, Any]:
        try:
            url = f"http://127.0.0.1:{port}/status.json"
            with urllib.request.urlopen(url, timeout=5) as answer:
                state: dict[str, Any] = json.load(answer)
                return state
        except OSError:
            return {"members": [], "said": [], "late_rank": -1}

    try:
        until(lambda: sum("ended" in one for one in ask()["members"]) == workers)
        yield folder, ask
    finally:
        (folder / "end").touch()
        process.send_signal(signal.SIGTERM)
        process.wait()


def until(is_so: Callable[[], bool]) -> float:
    """Ask again and again; return how many seconds it took."""
    begun = time.monotonic()
    while not is_so():
        if time.monotonic() - begun > LIMIT_S:
            raise SystemExit("it was not seen in time")
        time.sleep(0.01)
    return time.monotonic() - begun


def worker(state: dict[str, Any], rank: int) -> dict[str, Any]:
    """Return what is known of a rank; nothing if it is gone."""
    for one in state["members"]:
        if one["role"] == "worker" and one["index"] == rank:
            found: dict[str, Any] = one
            return found
    return {"state": "gone"}


def deaths(trials: int) -> list[float]:
    """Kill workers; until the page calls the worker away, or has it no more."""
    times: list[float] = []
    while len(times) < trials:
        with running(WORKERS) as (_, ask):
            for rank in range(1, WORKERS):
                if len(times) == trials:
                    break
                os.kill(worker(ask(), rank)["process"], signal.SIGKILL)
                times.append(until(lambda r=rank: worker(ask(), r)["state"] in ("away", "gone")))
    return times


def stops(trials: int) -> list[float]:
    """Stop a worker and let it go on."""
    times = []
    with running(3) as (_, ask):
        for _ in range(trials):
            process = worker(ask(), 1)["process"]
            os.kill(process, signal.SIGSTOP)
            times.append(until(lambda: worker(ask(), 1)["state"] == "silent"))
            os.kill(process, signal.SIGCONT)
            until(lambda: worker(ask(), 1)["state"] == "in")
    return times


def stragglers(trials: int) -> list[float]:
    """Let another rank come late; how many late rounds have ended when the page names it.

    The rank itself counts them: what the page says of rounds is up to 0.2 s old.
    """
    rounds = []
    with running(3) as (folder, ask):
        for trial in range(trials):
            rank = trial % 3
            (folder / "rounds").write_text("0\n")
            (folder / "late").write_text(str(rank))
            until(lambda r=rank: ask()["late_rank"] == r)
            rounds.append(int((folder / "rounds").read_text().split()[-1]))
            (folder / "late").write_text("none")
            until(lambda: ask()["late_rank"] == -1)
    return [float(one) for one in rounds]


def main() -> None:
    """Measure all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        return work(arguments.work)
    for what, unit, measure in (
        ("a dead worker is shown after", "s", deaths),
        ("a stopped worker is shown after", "s", stops),
        ("a rank that is 100 ms late is named after", "rounds", stragglers),
    ):
        found = sorted(measure(arguments.trials))
        print(
            f"{what}: median {statistics.median(found):.3f} {unit}, "
            f"worst {found[-1]:.3f} {unit}, of {len(found)}",
            flush=True,
        )
    return None


if __name__ == "__main__":
    main()
