"""A Trainer run whose server and scheduler are killed ends with the weights of an undisturbed run.

    python examples/trainer_survives.py              # --runs 20 repeats the second part

Needs ``pip install transformers accelerate``. It runs torch_trainer.py three times, with two ranks:

1. over byteps with two servers, undisturbed;
2. the same, and in the middle `kill -9` ends a server, and later the scheduler;
3. over Gloo under torchrun, and in the middle `kill -9` ends a rank, since there are no others.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PROGRAM = str(Path(__file__).with_name("torch_trainer.py"))
# bps run -np 2 --servers 2 --as gloo python, and torchrun --nproc-per-node 2
BPS_RUN = (sys.executable, "-m", "byteps.cli", "run", "-np", "2", "--servers", "2", "--as", "gloo")
BYTEPS = (*BPS_RUN, sys.executable)
GLOO = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")


def descendants(process: int) -> list[tuple[int, str]]:
    """Return the processes that a process has started, with their programs, and theirs as well."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            program = (folder / "cmdline").read_text().partition("\0")[0]
        except OSError:  # it has ended
            continue
        if int(parent) == process:
            child = int(folder.name)
            found += [(child, Path(program).name), *descendants(child)]
    return found


def train(words: Sequence[str], kills: Sequence[str], steps: int) -> tuple[int, str, list[str]]:
    """Run the Trainer; each time that it reports a loss, kill the next process of `kills`.

    Returns the exit code, the fingerprint of the weights, and the other lines that tell of it.
    """
    started = subprocess.Popen(
        [*words, PROGRAM, str(steps)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert started.stdout is not None
    left = list(kills)
    weights, told = set(), []
    for line in started.stdout:
        if "'loss'" in line and left:
            name = left.pop(0)
            victims = [one for one, its_name in descendants(started.pid) if its_name == name]
            if not victims:
                raise RuntimeError(f"there is no {name} any more: train for more --steps")
            victim = victims[0]
            os.kill(victim, signal.SIGKILL)
            told.append(f"kill -9 {victim}: {name}, after {line.strip()}")
        weights |= set(re.findall(r"weights (\w+)", line))
        if re.search(r"\[bps\]| was lost|to the coordinator|Signal 9", line):
            told.append(line.strip())
    code = started.wait()
    if left or len(weights) > 1:
        raise RuntimeError(f"not killed: {left}; weights of the ranks: {weights}")
    return code, next(iter(weights), "none"), told


def show(title: str, words: Sequence[str], kills: Sequence[str], steps: int) -> tuple[int, str]:
    """Run the Trainer, and print what happens."""
    print(f"-- {title}", flush=True)
    code, weights, told = train(words, kills, steps)
    for line in told:
        print(f"   {line[:160]}")
    print(f"   exit code {code}, weights {weights}", flush=True)
    return code, weights


def main() -> int:
    """Return 0 if all runs over byteps ended well, with the same weights."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1, help="runs with killed processes")
    parser.add_argument("--steps", type=int, default=300, help="of the training")
    options = parser.parse_args()
    undisturbed = show("byteps, undisturbed", BYTEPS, (), options.steps)
    same = 0
    for run in range(options.runs):
        title = f"byteps, run {run + 1} with a killed server and a killed scheduler"
        same += show(title, BYTEPS, ("bps-server", "bps-scheduler"), options.steps) == undisturbed
    show("gloo, with a killed rank", GLOO, (Path(sys.executable).name,), options.steps)
    print(f"{same} of {options.runs} runs over byteps have the weights of the undisturbed run")
    return 0 if same == options.runs and undisturbed[0] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
