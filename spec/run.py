"""Checks the models of the membership protocol with spin.

    ./dev spec [--some] [--large] [--only NAME] [--jobs N] [--seconds N] [--memory MB] [--list]

Without --large: the small bounds and all mutants, a minute at most; with --some, a third of the
mutants of each model. With --large: the campaign, hours. A run that does not end as the table in
spec/runs.py says fails the whole; so does a mutant that is not caught. Results go to
build/spec/results.json, the events of an unexpected violation to the terminal and to
build/spec/<run>/trail.txt.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from campaign import LARGE
from runs import MUTANTS, SMALL, Run

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parent / "build" / "spec"
DEPTH_MAX = 20000
TRAIL_LINES_MAX = 400

# Which property a failed assertion of the models stands for; the first match counts.
PROPERTIES = (
    (r"results?\[", "(a) two verdicts"),
    (r"borrowed\[", "memory touched after the end"),
    (r"begun\[|launched\[", "(c) dead end"),
    (r"reduced\[|gathered\[|up\[i_o\]", "(b) not all ranks' bytes"),
    (r"in_flight", "too much launched"),
    (r"stage\[", "goes on without the sum"),
    (r"first_way", "bits change"),
    (r"calling", "NCCL called beside its abort"),
    (r"violated \(*i_o==0", "launch without device memory"),
    (r"i_lent", "memory touched after the end"),
    (r"use_of\[.*==i_use", "another use disturbed"),
    (r"use_of\[i_r\]", "block held"),
    (r"brought\[", "(b) not all ranks' bytes"),
    (r"\(ended\[", "(c) dead end"),
    (r"\(out>>", "memory touched after the end"),
    (r"_length\[", "capacity"),
    (r"accepted\[|m_verdict\)\)$|verdict\[.*==m_verdict", "(a) two verdicts"),
    (r"view_workers\[newest\]&", "(b) a member is left out"),
    (r"==1\)\)* \(at|state\[", "(b) a sum without this worker"),
    (r"view_generation", "(b) generations mixed"),
    (r"open_key\[", "(c) two rounds at once"),
    (r"rounds_done\[", "(c) dead end"),
    (r"copy\[|decided\[|contributions\[", "(e) not freed"),
    (r"violated 0 ", "(d) taken from outside the view"),
    (r"applied\[", "two views of one epoch"),
    (r"n_forgotten", "a view in force is forgotten"),
    (r"receiving\[", "memory touched after the end"),
    (r"n_parts", "part of a contributor in a view"),
    (r"n_dead_members", "(c) a lost contributor stays"),
    (r"n_jobless", "(c) not in the job"),
    (r"n_outside", "(c) not told that it is out"),
    (r"n_jobs", "two jobs"),
    (r"n_uninformed", "(c) view not finished"),
    (r"held_view\[|phase\[|newest==", "(c) view not finished"),
)


@dataclass(frozen=True)
class Outcome:
    """What came out of one run."""

    name: str
    model: str
    defines: str
    expected: str
    verdict: str  # pass, violation, unfinished, broken
    ok: bool
    broken_property: str
    states: int
    depth: int
    seconds: float
    megabytes: int
    search: str
    text: str


class SpecError(Exception):
    """A tool failed; the text is its output."""


def folder_of(run: Run) -> Path:
    """Where a run keeps its files."""
    return OUTPUT / re.sub(r"[^a-z0-9]+", "-", run.name.lower()).strip("-")


def execute(command: list[str], cwd: Path) -> str:
    """Run a tool; its output."""
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    output = result.stdout + result.stderr
    if result.returncode != 0 or "Error:" in output:
        raise SpecError(f"{' '.join(command)}\n{output}")
    return output


def build(run: Run, folder: Path, memory_mb: int) -> None:
    """Generate and compile the verifier. -O0 where compiling takes longer than searching."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    execute(["spin", "-a", *run.flags(), str(HERE / f"{run.model}.pml")], folder)
    # clang takes half the time of gcc at -O0.
    name = "gcc" if run.large or not shutil.which("clang-19") else "clang-19"
    compiler = [word for word in (shutil.which("ccache"), name) if word]
    flags = ["-w", "-DSAFETY", "-DNOREDUCE", "-DNOFAIR", f"-DMEMLIM={memory_mb}"]
    flags.append("-O2" if run.large else "-O0")
    if run.hashed:
        flags.append("-DHC4")
    execute([*compiler, *flags, "-c", "pan.c", "-o", "pan.o"], folder)
    execute([name, "pan.o", "-o", "pan"], folder)


def search(folder: Path, large: bool, seconds: float) -> str:
    """Run the verifier. It is interrupted at the time limit and then says how far it got."""
    hash_bits = 26 if large else 20
    command = ["nice", "./pan", f"-m{DEPTH_MAX}", f"-w{hash_bits}", "-n"]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        return process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        return process.communicate()[0] + "\nspec: interrupted at the time limit\n"


def number(pattern: str, text: str) -> float:
    """The last number that a line of the verifier's report gives."""
    found = re.findall(pattern, text)
    return float(found[-1]) if found else 0.0


def property_of(text: str) -> str:
    """Name the property behind a failed assertion."""
    failed = re.search(r"assertion violated (.*)", text)
    if not failed:
        return ""
    for pattern, name in PROPERTIES:
        if re.search(pattern, failed.group(0)):
            return name
    return failed.group(1)


def verdict_of(text: str, broken: str) -> str:
    """Say how the search ended. A full channel or stack is a bound that is too small."""
    if broken == "capacity" or "max search depth too small" in text:
        return "broken"
    if "assertion violated" in text:
        return "violation"
    if "errors: 0" not in text:
        return "broken"
    if "MEMLIM bound" in text or "time limit" in text or "not completed" in text:
        return "unfinished"
    return "pass"


def events(run: Run, folder: Path) -> str:
    """The trail of a violation as a list of events."""
    command = ["spin", "-t", "-k", f"{run.model}.pml.trail", *run.flags()]
    command.append(str(HERE / f"{run.model}.pml"))
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    lines = [line.strip() for line in result.stdout.split("trail ends")[0].splitlines()]
    text = "\n".join(lines[:TRAIL_LINES_MAX])
    (folder / "trail.txt").write_text(text + "\n")
    return text


def check(run: Run, seconds: float, memory_mb: int) -> Outcome:
    """Build and search one run, and compare with what the table says."""
    folder = folder_of(run)
    started = time.monotonic()
    try:
        build(run, folder, memory_mb)
        started = time.monotonic()
        text = search(folder, run.large, seconds)
    except (SpecError, OSError) as error:
        text = str(error)
    elapsed = time.monotonic() - started
    broken = property_of(text)
    verdict = verdict_of(text, broken)
    ok = verdict == run.expected or (verdict == "unfinished" and run.may_be_unfinished)
    if not ok and verdict == "violation":
        text = events(run, folder)
    return Outcome(
        name=run.name,
        model=run.model,
        defines=run.defines,
        expected=run.expected,
        verdict=verdict,
        ok=ok,
        broken_property=broken,
        states=int(number(r"(\d+) states, stored", text) or number(r"([\d.e+]+) states, st", text)),
        depth=int(number(r"depth reached (\d+)", text)),
        seconds=round(elapsed, 2),
        megabytes=int(number(r"([\d.]+)\s+total actual memory usage", text)),
        search="64-bit hashes" if run.hashed else "exact",
        text="" if ok else text,
    )


def row(outcome: Outcome) -> str:
    """One line of the table."""
    mark = "" if outcome.ok else "   <-- expected " + outcome.expected
    return (
        f"{outcome.name:46} {outcome.states:>11,} {outcome.depth:>6} {outcome.seconds:>8.1f} "
        f"{outcome.megabytes:>6} {outcome.verdict:10} {outcome.broken_property}{mark}"
    )


def header() -> str:
    """The titles of the columns of row()."""
    return f"{'run':46} {'states':>11} {'depth':>6} {'s':>8} {'MB':>6} verdict"


def write_results(outcomes: list[Outcome]) -> None:
    """Everything for programs, rewritten after each run: a campaign may be cut short."""
    machine = {"cores": os.cpu_count(), "system": platform.platform()}
    whole = {"machine": machine, "runs": [asdict(outcome) for outcome in outcomes]}
    (OUTPUT / "results.json").write_text(json.dumps(whole, indent=1) + "\n")


def some_of(mutants: Iterable[Run]) -> Iterator[Run]:
    """Yield each third mutant of each model."""
    seen: Counter[str] = Counter()
    for run in mutants:
        if seen[run.model] % 3 == 0:
            yield run
        seen[run.model] += 1


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev spec", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--some", action="store_true", help="a third of the mutants")
    parser.add_argument("--large", action="store_true", help="the campaign instead")
    parser.add_argument("--only", default="", metavar="NAME", help="runs whose name contains it")
    parser.add_argument("--jobs", type=int, default=0, help="at a time; --large: 1")
    parser.add_argument("--seconds", type=float, default=0, help="limit of one run")
    parser.add_argument("--memory", type=int, default=0, metavar="MB", help="limit of one run")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    mutants = some_of(MUTANTS) if arguments.some else MUTANTS
    table = LARGE if arguments.large else (*SMALL, *mutants)
    chosen = [run for run in table if arguments.only in run.name]
    if arguments.list or not chosen:
        print("\n".join(run.name for run in table))
        return 0 if arguments.list else 2
    if shutil.which("spin") is None:
        print("spec: spin is not installed: run ./dev setup")
        return 1
    jobs = arguments.jobs or (1 if arguments.large else os.cpu_count() or 1)
    seconds = arguments.seconds or (3600 if arguments.large else 300)
    memory = arguments.memory or (6000 if arguments.large else 1500)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    print(header(), flush=True)
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(lambda run: check(run, seconds, memory), chosen):
            outcomes.append(outcome)
            print(row(outcome), flush=True)
            if outcome.text:
                print("".join(f"    {line}\n" for line in outcome.text.splitlines()), end="")
            write_results(outcomes)
    failed = sum(1 for outcome in outcomes if not outcome.ok)
    print(f"results in {OUTPUT / 'results.json'}")
    print(f"spec: {len(outcomes) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
