"""What strangers at the ports of a job cost it.

    ./dev bench strangers [--seconds 8] [--modes secret,open,tls] [--kinds random,idle,...]

A job of 2 workers and 2 servers sums one tensor without end; each of its processes may open 1024
files. Strangers of one kind after the other come to the ports of its scheduler and its servers. The
job has a secret, or none (open), or a secret and TLS. `start` is a job that starts while strangers
are there. Every sum of every worker is checked.

`quiet` and `quiet max`: the median and the slowest step of the seconds before the strangers; `step`
and `max`: while they are there. A step is a round of rank 0, in ms. `cpu`: what scheduler and
servers use for the strangers, in ms per second; `us each` the same for each stranger. `memory` and
`files`: the most that one process has more than before, in KiB and in files, when the last stranger
has been gone for longer than a handshake may take; `most memory` and `most files` (of all that a
process has) while they are there. `log`: how many bytes the job has written. Tables go to
bench-out/strangers.md and bench-out/strangers.json.
"""

from __future__ import annotations

import argparse
import json
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness import strangers
from harness.command import settings_of
from harness.jobs import free_port
from harness.programs import BPS_SCHEDULER, BPS_SERVER, BUILD, REPOSITORY, RESULTS
from harness.report import Report

sys.path.insert(0, str(REPOSITORY / "tests" / "python"))

from kill_job import WORKER, HangError, KillJob, Round

WORKERS = 2
SERVERS = 2
FILES = 1024
NBYTES = 1 << 20
MODES = ("secret", "open", "tls")
RUN_PLAN = Path(__file__).with_name("harness") / "run_plan.py"
STRANGERS = Path(strangers.__file__)
CHALLENGE = 16  # a kind of frame, and the bytes of one
HANG_LIMIT_S = 60.0
# Longer than the acceptor waits for a proof.
REST_S = 6.0


class Ports:
    """Where the processes of a job listen."""

    def __init__(self) -> None:
        self.scheduler = free_port()
        self.servers = [free_port() for _ in range(SERVERS)]

    def all(self) -> list[int]:
        """Return all of them."""
        return [self.scheduler, *self.servers]


def environment_of(mode: str, port: int) -> dict[str, str]:
    """Return what the processes of a job share."""
    shared = {
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_PS_ROOT_PORT": str(port),
        "DMLC_NUM_WORKER": str(WORKERS),
        "DMLC_NUM_SERVER": str(SERVERS),
        "BYTEPS_JOB_ID": f"strangers-{secrets.token_hex(4)}",
    }
    if mode != "open":
        shared["BYTEPS_JOB_SECRET"] = secrets.token_hex(16)
    if mode == "tls":
        shared["BYTEPS_TLS"] = "1"
    return shared


def plan_of(shared: dict[str, str], ports: Ports) -> Callable[[Path], list[str]]:
    """Return what makes the command of the job."""
    limited = ["prlimit", f"--nofile={FILES}:{FILES}"]

    def plan(path: Path) -> list[str]:
        worker = [sys.executable, WORKER, str(path), str(NBYTES)]
        programs = [{"command": [BUILD / BPS_SCHEDULER], "own": {"DMLC_ROLE": "scheduler"}}]
        for number, port in enumerate(ports.servers):
            own = {"DMLC_ROLE": "server", "DMLC_RANK": str(number), "DMLC_PORT": str(port)}
            programs.append({"command": [BUILD / BPS_SERVER], "own": own})
        for rank in range(WORKERS):
            own = {"DMLC_ROLE": "worker", "DMLC_WORKER_ID": str(rank)}
            programs.append({"command": worker, "own": own})
        lines = [
            {
                "command": [*limited, *map(str, program["command"])],
                "environment": {**shared, **program["own"]},
            }
            for program in programs
        ]
        file = path.with_suffix(".plan")
        file.write_text(json.dumps(lines))
        return [sys.executable, str(RUN_PLAN), str(file)]

    return plan


def record_member(shared: dict[str, str], tls: bool) -> list[bytes]:
    """Return the first messages of a server that takes us for its scheduler."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(HANG_LIMIT_S)
        port = listener.getsockname()[1]
        own = {"DMLC_ROLE": "server", "DMLC_PS_ROOT_PORT": str(port)}
        server = subprocess.Popen(
            [BUILD / BPS_SERVER],
            env={**shared, **own},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            link, _ = listener.accept()
            with link:
                link.settimeout(HANG_LIMIT_S)
                said = [link.recv(4096)]
                if not tls:
                    link.sendall(strangers.frame(CHALLENGE, secrets.token_bytes(CHALLENGE)))
                    said.append(link.recv(4096))
                return said
        finally:
            server.kill()
            server.wait()


def record(folder: Path, shared: dict[str, str]) -> Path:
    """Write down what members say, for those who repeat it."""
    tls = "BYTEPS_TLS" in shared
    other = {**shared, "BYTEPS_JOB_SECRET": "another"}
    said = {
        "member": record_member(shared, tls),
        "other secret": record_member(other, tls),
    }
    path = folder / "recorded.json"
    path.write_text(json.dumps({k: [word.hex() for word in words] for k, words in said.items()}))
    return path


@dataclass
class Usage:
    """What a process has."""

    resident_kib: int
    files: int
    cpu_s: float


def usage_of(pid: int) -> Usage:
    """Look at a process."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    resident = next(line for line in status if line.startswith("VmRSS"))
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    # The CPU clock of another process, as clock_getcpuclockid(3) makes it.
    return Usage(int(resident.split()[1]), files, time.clock_gettime((~pid << 3) | 2))


class Watched:
    """A job, and what its processes have."""

    def __init__(self, job: KillJob) -> None:
        self.job = job
        services = ["scheduler", *(f"server {number}" for number in range(SERVERS))]
        self.services = {label: job.process_of(label) for label in services}
        self.processes = {
            **self.services,
            **{f"worker {rank}": log.pid for rank, log in job.logs.items()},
        }

    def usage(self) -> dict[str, Usage]:
        """Return what each process has now."""
        return {label: usage_of(pid) for label, pid in self.processes.items()}

    def cpu_s(self, usage: dict[str, Usage]) -> float:
        """Return the CPU seconds of all that listen."""
        return sum(usage[label].cpu_s for label in self.services)

    def log_bytes(self) -> int:
        """Return how much the job has written."""
        return len(self.job.out) + len(self.job.err)

    def steps(self, begin_s: float, end_s: float) -> list[float]:
        """Return the lengths of the rounds of rank 0 between two moments, in ms."""
        rounds: Sequence[Round] = self.job.logs[0].rounds
        ends = [entry.end_s for entry in rounds if begin_s <= entry.end_s]
        ends = [end for end in ends if end <= end_s] + [end for end in ends if end > end_s][:1]
        return [1e3 * (b - a) for a, b in pairwise(ends)]


def begin_strangers(
    kind: str, seconds: float, recorded: Path, ports: Ports
) -> subprocess.Popen[bytes]:
    """Let strangers come."""
    words = [kind, str(seconds), kind, str(recorded), *map(str, ports.all())]
    return subprocess.Popen([sys.executable, str(STRANGERS), *words], stdout=subprocess.PIPE)


def end_strangers(crowd: subprocess.Popen[bytes]) -> dict[str, int]:
    """Return what they have counted."""
    out, _ = crowd.communicate(timeout=HANG_LIMIT_S)
    counts: dict[str, int] = json.loads(out)
    return counts


def median_and_most(steps: Sequence[float]) -> tuple[float, float]:
    return round(statistics.median(steps), 2), round(max(steps), 1)


def try_kind(
    watched: Watched, kind: str, seconds: float, recorded: Path, ports: Ports
) -> dict[str, Any]:
    """Let strangers of a kind come for a while, and wait until they are forgotten."""
    job = watched.job
    before = watched.usage()
    quiet_s = time.monotonic()
    job.run_for(seconds)
    begin, begin_s = watched.usage(), time.monotonic()
    log_bytes = watched.log_bytes()
    crowd = begin_strangers(kind, seconds, recorded, ports)
    try:
        job.run_for(0.75 * seconds)
        during = watched.usage()
        job.wait(lambda: crowd.poll() is not None, "the strangers", seconds + HANG_LIMIT_S)
    finally:
        counts = end_strangers(crowd)
    end_s, end = time.monotonic(), watched.usage()
    job.run_for(REST_S)
    after = watched.usage()
    quiet, steps = watched.steps(quiet_s, begin_s), watched.steps(begin_s, end_s)
    idle_cpu = (watched.cpu_s(begin) - watched.cpu_s(before)) / (begin_s - quiet_s)
    cpu = (watched.cpu_s(end) - watched.cpu_s(begin)) / (end_s - begin_s)
    # A step costs them, too.
    idle_cpu *= (len(steps) / (end_s - begin_s)) / (len(quiet) / (begin_s - quiet_s))
    quiet_median, quiet_most = median_and_most(quiet)
    median, most = median_and_most(steps)
    return {
        **counts,
        "quiet": quiet_median,
        "quiet max": quiet_most,
        "step": median,
        "max": most,
        "cpu": round(1e3 * (cpu - idle_cpu), 1),
        "us each": round(1e6 * (cpu - idle_cpu) * (end_s - begin_s) / counts["opened"], 1),
        "most memory": max(during[k].resident_kib - begin[k].resident_kib for k in after),
        "memory": max(after[k].resident_kib - begin[k].resident_kib for k in after),
        "files": max(after[k].files - begin[k].files for k in after),
        "most files": max(usage.files for usage in during.values()),
        "log": watched.log_bytes() - log_bytes,
    }


def problems_of(job: KillJob) -> list[str]:
    """Return what must never be."""
    errors = [f"rank {log.rank}: {log.error_text}" for log in job.logs.values() if log.error]
    return [*errors, *job.wrong_sums(), *job.disagreements(), *job.gaps()]


def finish(job: KillJob, what: str) -> list[str]:
    """End the job in order; return what was wrong."""
    code = job.stop(HANG_LIMIT_S)
    ended = [] if code == 0 and all(log.left for log in job.logs.values()) else [job.describe()]
    found = [*problems_of(job), *ended, *job.leftovers().values()]
    return [f"{what}: {text}" for text in found]


def run_mode(mode: str, arguments: argparse.Namespace, folder: Path, report: Report) -> list[str]:
    """Run one job with strangers of all kinds."""
    ports = Ports()
    shared = environment_of(mode, ports.scheduler)
    recorded = record(folder, shared)
    with KillJob(folder, NBYTES, WORKERS, SERVERS, launcher=plan_of(shared, ports)) as job:
        job.warm_up(rounds=20)
        watched = Watched(job)
        first = watched.usage()
        for kind in arguments.kinds.split(","):
            row = try_kind(watched, kind, arguments.seconds, recorded, ports)
            report.add({"mode": mode, "strangers": kind, **row})
            report.say(f"{mode}, {kind}: {row}")
        last = watched.usage()
        for label, usage in last.items():
            began = first[label]
            report.say(
                f"{mode}, {label}: {began.resident_kib} KiB and {began.files} files at first, "
                f"{usage.resident_kib} KiB and {usage.files} files at last"
            )
        return finish(job, mode)


def seconds_to_start(folder: Path, shared: dict[str, str], ports: Ports) -> tuple[float, list[str]]:
    """Start a job; return how long it takes to its third round, and what was wrong."""
    begin_s = time.monotonic()
    with KillJob(folder, NBYTES, WORKERS, SERVERS, launcher=plan_of(shared, ports)) as job:
        job.warm_up(rounds=3, limit_s=HANG_LIMIT_S)
        taken_s = time.monotonic() - begin_s
        return taken_s, finish(job, "a start")


def run_starts(mode: str, arguments: argparse.Namespace, folder: Path, report: Report) -> list[str]:
    """Start jobs while strangers are there."""
    found = []
    for kind in ("", *arguments.starts.split(",")):
        ports = Ports()
        shared = environment_of(mode, ports.scheduler)
        crowd = None
        if kind:
            recorded = record(folder, shared)
            crowd = begin_strangers(kind, 3600.0, recorded, ports)
        try:
            taken_s, problems = seconds_to_start(folder, shared, ports)
            report.say(f"{mode}, a start beside {kind or 'nobody'}: {taken_s:.2f} s")
            found += problems
        finally:
            if crowd is not None:
                crowd.kill()
                crowd.communicate()
    return found


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench strangers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="for strangers of each kind")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--kinds", default=",".join(strangers.KINDS))
    parser.add_argument("--starts", default="idle,hello,reset,flood", help="beside a start")
    parser.add_argument("--output", default=str(RESULTS / "strangers"), help="without ending")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    settings = settings_of(arguments)
    title = f"Strangers: {WORKERS} workers, {SERVERS} servers, {FILES} files, steps in ms"
    report = Report(title, arguments.output, settings)
    bad = []
    try:
        for mode in arguments.modes.split(","):
            with tempfile.TemporaryDirectory(prefix="byteps-strangers-") as folder:
                try:
                    bad += run_mode(mode, arguments, Path(folder), report)
                    bad += run_starts(mode, arguments, Path(folder), report)
                except HangError as error:
                    bad.append(f"{mode}: {error}")
    finally:
        report.finish()
    for text in bad[:20]:
        print(text, file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
