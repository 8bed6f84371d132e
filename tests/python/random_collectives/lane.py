"""Runs random collective operations in jobs of several shapes and counts what is wrong.

    export PYTHONPATH=tests/python
    python -m random_collectives.lane --adapters numpy,c10d --cases 3000
    python -m random_collectives.lane --adapters torch --jobs 3+2 --seed 7 --case 42

Each job runs a share of the cases; with --case, one case again.

A job is written as workers + servers: `3` is three ranks without servers, `3+2` has two, and the
workers of the machine sum first. With `3+2/alone` each rank pushes by itself. `2,2+1` is two
machines of two workers each and one server.

The last line but one is a report in JSON. The exit code is 1 if a case was wrong or did not run.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import secrets
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from job_runs import job, machines, warm_python
from processes import TOKEN_VARIABLE, clean_environment

from random_collectives.cases import ADAPTERS

JOBS = ("1", "2", "3", "4", "2+1", "3+2", "3+2/alone", "2,2+1", "2,1+2")
FRAMEWORK_OF = {"c10d": "torch"}
# An operation that takes so long hangs; then a job without a line hangs.
OPERATION_LIMIT_S = 100
SILENCE_S = 240.0
# A case that ends its job is told, and the rest goes on in a new job: so often.
JOBS_ENDED_MAX = 5
_PROGRAM = "random_operations"
_FOLDER = Path(__file__).resolve().parents[1]
_LINE = re.compile(r"collectives (\{.*\})\s*$")
_SHAPE = re.compile(r"(\d+(?:,\d+)*)(?:\+(\d+))?(/alone)?")
_FIRST_OF_JOB = 100_000


@dataclass(frozen=True)
class Shape:
    """The form of a job."""

    text: str
    sizes: tuple[int, ...]  # workers of each machine
    servers: int
    is_alone: bool

    @classmethod
    def of(cls, text: str) -> Shape:
        """Return what a text means."""
        match = _SHAPE.fullmatch(text)
        if match is None:
            raise argparse.ArgumentTypeError(f"{text!r} is no job; write such as 3, 3+2 or 2,2+1")
        sizes = tuple(int(size) for size in match[1].split(","))
        return cls(text, sizes, int(match[2] or 0), match[3] is not None)

    @property
    def size(self) -> int:
        """Return the number of ranks."""
        return sum(self.sizes)

    def contributions(self) -> list[list[int]]:
        """Return the ranks that are one contribution to a sum: those of a machine that sums first.
        Without servers all ranks sum in one go. Two workers beside their servers push alone."""
        if self.servers == 0 or self.is_alone or self.sizes == (2,):
            return [[rank] for rank in range(self.size)]
        ends = [sum(self.sizes[: i + 1]) for i in range(len(self.sizes))]
        return [list(range(e - n, e)) for e, n in zip(ends, self.sizes, strict=True)]


@dataclass
class Share:
    """Cases of one adapter in jobs of one shape, and what came of them."""

    adapter: str
    shape: Shape
    first: int
    last: int
    wrong: dict[int, list[str]] = field(default_factory=dict)
    done: int = 0
    seconds: float = 0.0

    @property
    def cases(self) -> int:
        """Return how many cases there are."""
        return self.last - self.first


def environment_of(shape: Shape) -> dict[str, str]:
    """Return the environment of a job."""
    environment = {
        **clean_environment(),
        TOKEN_VARIABLE: uuid.uuid4().hex,
        "OMP_NUM_THREADS": "1",
        "BYTEPS_OPERATION_TIMEOUT": str(OPERATION_LIMIT_S),
        "BYTEPS_JOB_SECRET": secrets.token_hex(16),  # objects travel between machines
    }
    if shape.is_alone:
        # Pieces as small as they may be: more of them in an array.
        alone = {"LOCAL_REDUCE": "0", "PARTITION_BYTES": "4096", "SERVER_SHARDS": "2"}
        environment |= {f"BYTEPS_{name}": value for name, value in alone.items()}
    return environment


@contextmanager
def started(shape: Shape, arguments: tuple[str, ...], python: Sequence[str]) -> Iterator[list]:
    """Start a job; yield the launchers, which have the output of the ranks."""
    environment = environment_of(shape)
    if len(shape.sizes) > 1:
        with machines(
            environment, _PROGRAM, shape.sizes, shape.servers, arguments, python
        ) as found:
            yield found
        return
    process = job(
        environment, _PROGRAM, shape.size, shape.servers, arguments=arguments, python=python
    )
    try:
        yield [process]
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(SILENCE_S)


def lines_of(processes: Sequence[subprocess.Popen[str]]) -> Iterator[str]:
    """Return what processes print, until all have ended; end them if they are silent for long."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read(stream: Iterator[str]) -> None:
        for line in stream:
            lines.put(line)
        lines.put(None)

    streams = [s for p in processes for s in (p.stdout, p.stderr) if s is not None]
    for stream in streams:
        threading.Thread(target=read, args=(stream,), daemon=True).start()
    ended = 0
    while ended < len(streams):
        try:
            line = lines.get(timeout=SILENCE_S)
        except queue.Empty:
            yield f"no line for {SILENCE_S:.0f} s: the job hangs, and is ended\n"
            for process in processes:
                process.kill()
            line = lines.get(timeout=SILENCE_S)
        if line is None:
            ended += 1
        else:
            yield line


class Progress:
    """Says now and then how far it is."""

    def __init__(self, total: int, every_s: float = 10.0) -> None:
        self._total, self._every_s = total, every_s
        self._told = self._began = time.monotonic()
        self._before = 0

    def at(self, share: Share, done: int) -> None:
        """Tell of a share of which so many cases are done."""
        now = time.monotonic()
        if now > self._told + self._every_s:
            self._told = now
            text = f"{self._before + done} of {self._total} cases, {now - self._began:.0f} s"
            print(f"{text}: {share.adapter} {share.shape.text}", flush=True)

    def add(self, share: Share) -> None:
        """A share is over."""
        self._before += share.cases


def run_share(share: Share, seed: int, progress: Progress) -> None:
    """Run the cases of a share, in a new job behind a case that has ended one."""
    began = time.monotonic()
    python = warm_python(FRAMEWORK_OF.get(share.adapter, share.adapter))
    first, jobs_ended = share.first, 0
    while first < share.last and jobs_ended <= JOBS_ENDED_MAX:
        first = run_job(share, first, seed, python, progress)
        jobs_ended += 1
    share.seconds = time.monotonic() - began


def run_job(share: Share, first: int, seed: int, python: Sequence[str], progress: Progress) -> int:
    """Run cases from `first` on in one job; return the first that has not run."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = (
            *("--seed", str(seed), "--adapter", share.adapter, "--folder", folder),
            *("--machines", json.dumps(share.shape.contributions())),
            *("--first", str(first), "--last", str(share.last)),
        )
        whole, tail, ends = 0, [], {}
        with started(share.shape, arguments, python) as processes:
            for line in lines_of(processes):
                tail = [*tail[-40:], line]
                match = _LINE.search(line)
                if match is None:
                    continue
                told = json.loads(match[1])
                whole += "done" in told
                if "at" in told:
                    progress.at(share, told["at"] - share.first)
                if told.get("is_end"):
                    ends.setdefault(told["wrong"], []).append(told)
                elif "wrong" in told:
                    note_wrong(share, told, seed)
        begin = account(share, first, read_digests(Path(folder)), seed)
        if whole < share.shape.size:
            note_end(share, begin - 1, ends.get(begin - 1, []), tail, seed)
        return begin


def note_wrong(share: Share, told: Mapping, seed: int) -> None:
    """Tell of a case that a rank has found wrong, the first time with all that is known."""
    number = told["wrong"]
    texts = [f"rank {told['rank']}: {text}" for text in told["what"]]
    if number not in share.wrong:
        print(f"WRONG {share.adapter} {share.shape.text} case {number}, seed {seed}")
        print(f"  again: {replay(share, seed, number)}")
        print(f"  {told['case']}")
    share.wrong.setdefault(number, []).extend(texts)
    print("".join(f"  {text}\n" for text in texts), end="", flush=True)


def replay(share: Share, seed: int, number: int) -> str:
    """Return the command that runs one case again."""
    options = ["--adapters", share.adapter, "--jobs", share.shape.text, "--seed", str(seed)]
    command = [sys.executable, "-m", "random_collectives.lane", *options, "--case", str(number)]
    return f"PYTHONPATH={shlex.quote(str(_FOLDER))} {shlex.join(command)}"


def read_digests(folder: Path) -> list[dict[int, dict[str, str]]]:
    """Return each rank's notes: of each case, digests of the results that all ranks have alike."""
    found = []
    for file in sorted(folder.glob("digests.*")):
        cases = {}
        for line in file.read_text().splitlines():
            number, *digests = line.split()
            cases[int(number)] = dict(one.split(":") for one in digests)
        found.append(cases)
    return found


def note_end(
    share: Share, number: int, told: Sequence[Mapping], tail: Sequence[str], seed: int
) -> None:
    """Tell of a case that has ended its job, or of a job whose end was none."""
    for one in told:
        note_wrong(share, one, seed)
    if not told:
        text = "the job ended in this case, or behind the last one"
        note_wrong(share, {"wrong": number, "rank": "?", "what": [text], "case": ""}, seed)
        print("".join(f"  | {line}" for line in tail), flush=True)


def account(
    share: Share, first: int, ranks: Sequence[Mapping[int, Mapping[str, str]]], seed: int
) -> int:
    """Compare the ranks' notes of one job; return the case behind the last that has begun."""
    for number in range(first, share.last):
        notes = [cases[number] for cases in ranks if number in cases]
        if len(notes) < share.shape.size:
            return number + 1
        share.done += 1
        for call in {call for note in notes for call in note}:
            if len({note[call] for note in notes if call in note}) > 1:
                text = f"call {call}: the ranks have other bits than each other"
                note_wrong(
                    share, {"wrong": number, "rank": "all", "what": [text], "case": ""}, seed
                )
    return share.last


def shares_of(
    adapters: Sequence[str], shapes: Sequence[Shape], cases: int, only: int | None
) -> list[Share]:
    """Deal the cases to the adapters, and those of an adapter to jobs of all shapes."""
    pairs = [(adapter, i, shape) for adapter in adapters for i, shape in enumerate(shapes)]
    if only is not None:
        return [Share(adapter, shape, only, only + 1) for adapter, _, shape in pairs]
    shares = []
    for place, (adapter, i, shape) in enumerate(pairs):
        count = (cases + len(pairs) - 1 - place) // len(pairs)
        shares.append(Share(adapter, shape, i * _FIRST_OF_JOB, i * _FIRST_OF_JOB + count))
    return shares


def report(shares: Sequence[Share], seed: int) -> dict[str, object]:
    """Return what came of all cases."""
    by_adapter: dict[str, dict[str, int]] = {}
    for share in shares:
        one = by_adapter.setdefault(share.adapter, {"cases": 0, "wrong": 0})
        one["cases"] += share.cases
        one["wrong"] += len(share.wrong)
    total = {key: sum(one[key] for one in by_adapter.values()) for key in ("cases", "wrong")}
    missing = sum(share.cases - share.done for share in shares)
    return {"seed": seed, **total, "not_run": missing, "by_adapter": by_adapter}


def add_up(files: Sequence[Path]) -> int:
    """Print what reports say together; return 1 if a case was wrong or did not run."""
    reports = [json.loads(file.read_text()) for file in files if file.exists()]
    for one in reports:
        for adapter, found in one["by_adapter"].items():
            print(f"{adapter:12} {found['cases']:6} cases, {found['wrong']} wrong")
    cases, wrong, missing = (
        sum(one[key] for one in reports) for key in ("cases", "wrong", "not_run")
    )
    print(f"{cases} cases, {wrong} wrong, {missing} not run")
    return 1 if wrong or missing or len(reports) < len(files) else 0


def names(text: str) -> list[str]:
    """Return a list of adapters."""
    found = text.split(",")
    unknown = sorted(set(found) - set(ADAPTERS))
    if unknown:
        raise argparse.ArgumentTypeError(
            f"no adapter {', '.join(unknown)}; there are: {', '.join(ADAPTERS)}"
        )
    return found


def run(argv: Sequence[str] | None = None) -> int:
    """Run what the arguments say; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--adapters", type=names, default=["numpy", "torch", "c10d"])
    parser.add_argument("--jobs", nargs="+", type=Shape.of, default=[Shape.of(j) for j in JOBS])
    parser.add_argument("--cases", type=int, default=900, help="in all (900)")
    parser.add_argument("--seed", type=int, help="a number of your choice; else a new one")
    parser.add_argument("--case", type=int, help="only this one, in each job")
    parser.add_argument("--report", type=Path, help="a file for the report")
    parser.add_argument("--add", type=Path, nargs="+", help="reports to add up; nothing is run")
    args = parser.parse_args(argv)
    if args.add:
        return add_up(args.add)
    seed = secrets.randbelow(2**32) if args.seed is None else args.seed
    shares = shares_of(args.adapters, args.jobs, args.cases, args.case)
    total = sum(share.cases for share in shares)
    print(f"collectives at random: seed {seed}, {total} cases", flush=True)
    progress = Progress(total)
    for share in shares:
        if share.cases:
            run_share(share, seed, progress)
            progress.add(share)
            text = f"{share.adapter:10} {share.shape.text:10} {share.cases:6} cases"
            print(f"{text}, {len(share.wrong)} wrong, {share.seconds:.0f} s", flush=True)
    whole = report(shares, seed)
    print(json.dumps(whole))
    if args.report is not None:
        args.report.write_text(json.dumps(whole) + "\n")
    wrong = int(str(whole["wrong"]))
    print(f"collectives: {total} cases, {wrong} wrong, seed {seed}")
    return 1 if wrong or whole["not_run"] else 0


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.exit(run())
