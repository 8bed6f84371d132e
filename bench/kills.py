"""How long a job stands still when one of its processes is killed or frozen, and what it costs.

    ./dev bench kills [--trials 20] [--sizes 1048576,67108864] [--victims worker,server,...]
                      [--over tcp,rdma]

Real processes on this machine: 4 workers sum one tensor without end on 4 servers. At a random
instant one process gets SIGKILL (servers and the scheduler are started again by `bps run`) or
SIGSTOP, and SIGCONT when the others have gone on. `cut`: every process has a host of its own (a
network namespace, needs root); the link of one goes down, and up when the others have gone on.
`machine-rank` and `machine`: two machines, each of 4 ranks that are one member; one rank is killed,
or all ranks of a machine. `--over tcp,rdma` compares TCP with RDMA over the stand-in for
libibverbs, job by job in turn: each worker is a member of its own, and only a process that ends is
lost, because a machine with other work lets processes stand still. Every sum of every worker is
checked against what went in and its receipt, which names the ranks and the round.

Times are of the slowest survivor, in ms; a round is the median one before or after, whichever is
shorter. `next`: from the signal to the end of the next round, less a round. `stall`: what the round
of the signal and the one after it took, less two rounds, and less what it took to look at a sum
that is not like the others; it sees what `next` may miss. Counted, and 0 if all is well: sums that
are wrong, rounds that members ended differently, sums that lack a survivor (`short`), hangs,
processes left, frozen ones that did not learn that they are out (`unfenced`), ranks beside a killed
one whose error does not name it (`unnamed`), complaints of the stand-in (`misuse`). Tables go to
bench-out/kills.md and bench-out/kills.json.
"""

from __future__ import annotations

import argparse
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness.command import settings_of
from harness.programs import REPOSITORY, RESULTS
from harness.report import Report

sys.path.insert(0, str(REPOSITORY / "tests" / "python"))

from harness.cut_job import CutJob
from harness.machines_job import MachinesJob
from kill_job import HangError, KillJob, Round
from rdma_jobs import counts
from rdma_kill_job import RdmaKillJob, patient_over_tcp

WORKERS = 4
SERVERS = 4
MACHINES = 2
MACHINE_RANKS = 4
# So many in one job, each with another victim: `bps run` waits before it starts the same again.
TRIALS_PER_JOB = 4
HANG_LIMIT_S = 30.0
SETTLE_S = 0.4
ROUNDS_AFTER = 6
# How tensors travel: as they do on one machine without further settings, or as --over says.
USUAL = "usual"
WAYS = (USUAL, "tcp", "rdma")
KILLED = ("worker", "server", "scheduler")


@dataclass(frozen=True)
class Victim:
    """What is done to whom."""

    role: str
    number: int = signal.SIGKILL
    cut: bool = False
    of_machine: bool = False
    whole_machine: bool = False

    @property
    def comes_back(self) -> bool:
        """Return whether it lives on and must learn that the others went on without it."""
        return self.cut or self.number == signal.SIGSTOP

    def strike(self, job: KillJob, label: str) -> float:
        """Do it; return when."""
        if self.whole_machine and isinstance(job, MachinesJob):
            ranks = job.machine_of(int(label.split()[1]))
            return min(job.send(f"worker {rank}", self.number) for rank in ranks)
        if not isinstance(job, CutJob):
            return job.send(label, self.number)
        job.set_link(label, "down")
        return time.monotonic()  # starting the command may take longer than a round

    def undo(self, job: KillJob, label: str) -> None:
        """Bring it back."""
        if isinstance(job, CutJob):
            job.set_link(label, "up")
        else:
            job.send(label, signal.SIGCONT)

    @property
    def is_worker(self) -> bool:
        """Return whether the job goes on with fewer; one trial in a job then."""
        return self.role == "worker"

    @property
    def choices(self) -> int:
        """Return how many there are of its role."""
        if self.of_machine:
            return MACHINES * MACHINE_RANKS
        return WORKERS if self.is_worker else SERVERS


VICTIMS = {
    "worker": Victim("worker"),
    "server": Victim("server"),
    "scheduler": Victim("scheduler"),
    "frozen-worker": Victim("worker", signal.SIGSTOP),
    "frozen-server": Victim("server", signal.SIGSTOP),
    "cut-worker": Victim("worker", cut=True),
    "cut-server": Victim("server", cut=True),
    "machine-rank": Victim("worker", of_machine=True),
    "machine": Victim("worker", of_machine=True, whole_machine=True),
}


@dataclass
class Trial:
    """One signal, in seconds."""

    label: str
    next_s: float = 0.0
    stall_s: float = 0.0
    median_s: float = 0.0
    fenced: bool = True


@dataclass
class Cell:
    """All trials of one size and one victim."""

    trials: list[Trial] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    wrong: int = 0
    disagreements: int = 0
    short: int = 0
    hangs: int = 0
    leftovers: int = 0
    unnamed: int = 0
    misuse: int = 0


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that is not below `share` of them."""
    ranked = sorted(values)
    return ranked[max(0, -(-round(share * len(ranked) * 1000) // 1000) - 1)]


def median_round(rounds: Sequence[Round]) -> float:
    """Return the median time between the ends of two rounds."""
    return statistics.median(b.end_s - a.end_s for a, b in pairwise(rounds))


def usual_round(rounds: list[Round], moment_s: float) -> float:
    """Return the shorter median of before the moment and, without those next to it, after it."""
    place = next(i for i, entry in enumerate(rounds) if entry.end_s > moment_s)
    return min(median_round(rounds[:place]), median_round(rounds[place + 1 :]))


def disturbed(rounds: list[Round], moment_s: float) -> tuple[float, float, float]:
    """Return the time to the end of the round of the moment, its and the next one's length.

    The third is how much longer than usual the sum between them was looked at.
    """
    place = next(i for i, entry in enumerate(rounds) if entry.end_s > moment_s)
    length = rounds[place + 1].end_s - rounds[place - 1].end_s
    usual = statistics.median(entry.check_s for entry in rounds[:place])
    return rounds[place].end_s - moment_s, length, max(0.0, rounds[place].check_s - usual)


def measure(job: KillJob, label: str, ranks: list[int], moment_s: float) -> Trial:
    """Wait until all others have gone on; return how long it took the slowest one."""
    job.go_on(ranks, moment_s, rounds=ROUNDS_AFTER, limit_s=HANG_LIMIT_S)
    trial = Trial(label)
    trial.median_s = statistics.median(usual_round(job.logs[r].rounds, moment_s) for r in ranks)
    times = [disturbed(job.logs[rank].rounds, moment_s) for rank in ranks]
    trial.next_s = max(end for end, _, _ in times) - trial.median_s
    # All wait for the one that looks longest.
    looking_s = max(look for _, _, look in times)
    trial.stall_s = max(length for _, length, _ in times) - 2 * trial.median_s - looking_s
    return trial


def returns(job: KillJob) -> int:
    """Return how often servers have said that they were left behind, and join again."""
    return (job.out + job.err).count("joining again")


def bring_back(job: KillJob, victim: Victim, label: str) -> bool:
    """Return whether a process that is back learns that the others went on without it."""
    before = returns(job)
    victim.undo(job, label)
    try:
        if label.startswith("worker"):
            log = job.logs[int(label.split()[1])]
            job.wait(lambda: bool(log.error), "the error of the zombie", HANG_LIMIT_S)
            return log.error == "EvictedError"
        job.wait(lambda: returns(job) > before, "the return of the server", HANG_LIMIT_S)
    except HangError:
        return False
    return True


def run_trial(job: KillJob, victim: Victim, label: str, chance: random.Random) -> Trial:
    """Signal one process at a random instant."""
    gone: list[int] = []
    if victim.is_worker:
        number = int(label.split()[1])
        gone = job.machine_of(number) if isinstance(job, MachinesJob) else [number]
    ranks = [rank for rank in range(job.workers) if rank not in gone]
    process = job.process_of(label)
    log = job.logs[ranks[0]]
    job.run_for(SETTLE_S + chance.uniform(0, 2) * median_round(log.rounds))
    trial = measure(job, label, ranks, victim.strike(job, label))
    if victim.comes_back:
        trial.fenced = bring_back(job, victim, label)
    elif not victim.is_worker:
        job.wait_for_restart(label, process)
    return trial


def audit(job: KillJob, cell: Cell, kind: str) -> None:
    """Count what must never happen."""
    wrong, disagreements = job.wrong_sums(), job.disagreements() + job.gaps()
    survivors = {rank for rank, log in job.logs.items() if log.left}
    short = [
        f"round {entry.step} of rank {log.rank} has only {entry.receipt}"
        for log in job.logs.values()
        for entry in log.rounds
        if not survivors <= set(entry.receipt) and log.left
    ]
    leftovers = job.leftovers()
    cell.wrong += len(wrong)
    cell.disagreements += len(disagreements)
    cell.short += len(short)
    cell.leftovers += len(leftovers)
    found = wrong + disagreements + short + list(leftovers.values())
    cell.problems += [f"{kind}: {text}" for text in found[:10]]


def look_for_misuse(folder: Path, cell: Cell) -> None:
    """Count what the stand-ins of all processes that ended in order have complained about."""
    bad = [one for one in counts(folder) if one["complaints"] or one["not_ready"]]
    cell.misuse = sum(one["complaints"] + one["not_ready"] for one in bad)
    cell.problems += [f"misuse of the device: {one}" for one in bad]


def start_job(folder: Path, victim: Victim, nbytes: int, over: str) -> KillJob:
    """Start a job that can go on without the victim."""
    if victim.of_machine:
        return MachinesJob(folder, nbytes, MACHINES, MACHINE_RANKS, SERVERS)
    if victim.cut:
        return CutJob(folder, nbytes, WORKERS, SERVERS)
    fewer = ("--min-np", str(WORKERS - 1)) if victim.is_worker else ()
    options = ("--restart", "1000", *fewer)
    if over == "rdma":
        return RdmaKillJob(folder, nbytes, WORKERS, SERVERS, options)
    told = patient_over_tcp() if over == "tcp" else {}
    return KillJob(folder, nbytes, WORKERS, SERVERS, options, told)


def wait_until_rdma_carries(job: KillJob) -> None:
    """Wait, if the job is one over RDMA; successors of killed processes have it, too."""
    if isinstance(job, RdmaKillJob):
        job.wait_until_rdma_carries()


def run_job(
    folder: Path,
    kind: str,
    over: str,
    nbytes: int,
    count: int,
    cell: Cell,
    report: Report,
    seed: str,
) -> None:
    """Run one job with some trials."""
    victim, chance = VICTIMS[kind], random.Random(seed)
    numbers = chance.sample(range(victim.choices), count)
    with start_job(folder, victim, nbytes, over) as job:
        try:
            job.warm_up(rounds=5)
            for number in numbers:
                wait_until_rdma_carries(job)
                label = victim.role if victim.role == "scheduler" else f"{victim.role} {number}"
                trial = run_trial(job, victim, label, chance)
                cell.trials.append(trial)
                if isinstance(job, MachinesJob) and not victim.whole_machine:
                    unnamed = job.unnamed(number)
                    cell.unnamed += len(unnamed)
                    cell.problems += unnamed
                report.say(
                    f"{nbytes} bytes, {kind}, {over}, trial {len(cell.trials)}, {label}: "
                    f"next {trial.next_s * 1e3:.1f} ms, stall {trial.stall_s * 1e3:.1f} ms, "
                    f"round {trial.median_s * 1e3:.1f} ms{'' if trial.fenced else ', NOT FENCED'}"
                )
            wait_until_rdma_carries(job)
            code = job.stop(HANG_LIMIT_S)
            if code != 0:
                cell.problems.append(f"{kind}: exit code {code}\n{job.describe()}")
        except (HangError, AssertionError, ValueError) as error:
            cell.hangs += 1
            cell.problems.append(f"{kind}, seed {seed}: {error}")
            report.say(f"{nbytes} bytes, {kind}, {over}: {str(error).splitlines()[0]}")
            return
        audit(job, cell, kind)


def row_of(kind: str, over: str, nbytes: int, cell: Cell) -> dict[str, Any]:
    """One row of the table."""

    def at(share: float, values: list[float]) -> float | None:
        return round(percentile(values, share) * 1e3, 1) if values else None

    following = [trial.next_s for trial in cell.trials]
    stalls = [trial.stall_s for trial in cell.trials]
    return {
        "MB": round(nbytes / (1 << 20), 3),
        "victim": kind,
        "over": over,
        "trials": len(cell.trials),
        "round": at(0.5, [trial.median_s for trial in cell.trials]),
        "next p50": at(0.5, following),
        "p99": at(0.99, following),
        "stall p50": at(0.5, stalls),
        "p99 ": at(0.99, stalls),
        "max": at(1.0, stalls),
        "wrong": cell.wrong,
        "differ": cell.disagreements,
        "short": cell.short,
        "hangs": cell.hangs,
        "left": cell.leftovers,
        "unnamed": cell.unnamed,
        "misuse": cell.misuse,
        "unfenced": sum(not trial.fenced for trial in cell.trials),
    }


def run_cells(
    kind: str, nbytes: int, arguments: argparse.Namespace, report: Report
) -> dict[str, Cell]:
    """Run all trials of one size and one victim: a cell for each way, their jobs in turn."""
    cells = {over: Cell() for over in arguments.over}
    once = VICTIMS[kind].is_worker or VICTIMS[kind].cut
    per_job = 1 if once else TRIALS_PER_JOB
    left = arguments.trials
    with tempfile.TemporaryDirectory(prefix="byteps-kills-") as name:
        folder = Path(name)
        while left > 0:
            count = min(per_job, left)
            seed = f"{arguments.seed} {kind} {nbytes} {left}"
            for over, cell in cells.items():
                run_job(folder, kind, over, nbytes, count, cell, report, seed)
            left -= count
        if "rdma" in cells:
            look_for_misuse(folder, cells["rdma"])
    for over, cell in cells.items():
        details = {"trials": [vars(t) for t in cell.trials], "problems": cell.problems}
        report.add(row_of(kind, over, nbytes, cell), details)
    return cells


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench kills",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--trials", type=int, default=20, help="of each cell")
    parser.add_argument("--sizes", default="1048576,67108864", help="bytes of the tensor")
    parser.add_argument("--victims", default=",".join(VICTIMS))
    parser.add_argument(
        "--over", default=USUAL, help=f"how tensors travel: some of {', '.join(WAYS)}, with commas"
    )
    parser.add_argument("--seed", default="1")
    parser.add_argument("--output", default=str(RESULTS / "kills"), help="without ending")
    arguments = parser.parse_args()
    arguments.over = arguments.over.split(",")
    if not set(arguments.over) <= set(WAYS):
        parser.error(f"--over is {','.join(arguments.over)}; it must be some of {', '.join(WAYS)}")
    if arguments.over != [USUAL] and not set(arguments.victims.split(",")) <= set(KILLED):
        parser.error(f"--over tcp and rdma need --victims that are some of {','.join(KILLED)}")
    return arguments


def main() -> int:
    arguments = parse_arguments()
    settings = settings_of(arguments)
    report = Report("Kills, times in ms", arguments.output, settings)
    bad = []
    try:
        for nbytes in (int(word) for word in arguments.sizes.split(",")):
            for kind in arguments.victims.split(","):
                for cell in run_cells(kind, nbytes, arguments, report).values():
                    bad += cell.problems
    finally:
        report.finish()
    for text in bad[:20]:
        print(text, file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
