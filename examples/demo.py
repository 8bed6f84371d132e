"""Shows the system at work: one model, trained in one process and on 2 workers with 2 servers.

Prints what they learned, whether the workers hold the same bits and how far they are from the
one-process run, and draws both into demo-out/digits.png. Exits with 1 if something differs.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

TRAINING = Path(__file__).with_name("torch_digits.py")
STEPS_PER_EPOCH = 23
# Rounding differs: two halves of a batch, or the whole. Training makes small differences grow, so
# it runs in float64, where they stay near 1e-15; a wrong gradient shows at once.
TOLERANCE = 1e-9
LEAST_ACCURACY = 0.9


@dataclass
class Curve:
    """What one run reported."""

    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    end: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, line: str) -> bool:
        """Take one event; return whether it is a step."""
        event = json.loads(line)
        if event["kind"] == "epoch":
            self.losses.append(event["loss"])
            self.accuracies.append(event["accuracy"])
        elif event["kind"] == "end":
            self.end = event
        return bool(event["kind"] == "step")


class LineReader:
    """Splits what comes out of a descriptor into lines."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._rest = b""

    def read(self) -> tuple[list[str], bool]:
        """Return the lines that are whole now, and whether more may come."""
        data = os.read(self.descriptor, 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line.decode() for line in lines], bool(data)


def take(events: LineReader, curve: Curve, progress: Progress, task: TaskID) -> bool:
    """Take the events that are there; return whether there may be more."""
    lines, more = events.read()
    progress.advance(task, sum(curve.add(line) for line in lines))
    return more


def run(title: str, command: list[str], epochs: int, folder: Path, console: Console) -> Curve:
    """Run a training with a progress bar over its steps."""
    fifo = folder / "events"
    os.mkfifo(fifo)
    # Opened before the writer exists, and without waiting for one that may never come.
    events = LineReader(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))
    options = [
        "--float64",
        "--epochs",
        str(epochs),
        "--events",
        str(fifo),
        "--weights",
        str(folder / "weights"),
    ]
    curve = Curve()
    started = time.monotonic()
    columns = (TextColumn("{task.description:28}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task(title, total=epochs * STEPS_PER_EPOCH)
        process = subprocess.Popen(
            [*command, *options],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert process.stdout is not None
        output = LineReader(process.stdout.fileno())
        with selectors.DefaultSelector() as selector:
            selector.register(events.descriptor, selectors.EVENT_READ)
            selector.register(output.descriptor, selectors.EVENT_READ)
            running = True
            while running:
                for key, _ in selector.select():
                    if key.fd == output.descriptor:
                        lines, running = output.read()
                        for line in lines:
                            progress.console.print(line, markup=False, highlight=False)
                    elif not take(events, curve, progress, task):
                        selector.unregister(events.descriptor)
        while take(events, curve, progress, task):
            pass  # what was written just before the end
        if process.wait():
            raise SystemExit(f"{title} failed: {' '.join(command)} ended with {process.returncode}")
    os.close(events.descriptor)
    curve.seconds = time.monotonic() - started
    return curve


def weight_difference(one: Path, other: Path) -> float:
    """Return the largest difference between two sets of weights."""
    import torch

    first, second = torch.load(one), torch.load(other)
    return max(float((first[name] - second[name]).abs().max()) for name in first)


def draw(alone: Curve, job: Curve, path: Path) -> None:
    """Draw loss and accuracy of both runs."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    epochs = range(1, len(alone.losses) + 1)
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for axis, name in zip(axes, ("losses", "accuracies"), strict=True):
        axis.plot(epochs, getattr(alone, name), "o-", linewidth=5, alpha=0.4, label="one process")
        axis.plot(epochs, getattr(job, name), "s--", label="2 workers, 2 servers")
        axis.set_xlabel("epoch")
        axis.legend()
    axes[0].set_ylabel("mean loss")
    axes[1].set_ylabel("accuracy on the test images")
    figure.suptitle("Handwritten digits, a small convolutional network")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def report(alone: Curve, job: Curve, difference: float, console: Console) -> bool:
    """Print the comparison; return whether everything is as promised."""
    identical = len(set(job.end["digests"])) == 1
    table = Table("", "one process", "2 workers, 2 servers")
    table.add_row("accuracy", f"{alone.accuracies[-1]:.1%}", f"{job.accuracies[-1]:.1%}")
    table.add_row("mean loss, last epoch", f"{alone.losses[-1]:.5f}", f"{job.losses[-1]:.5f}")
    table.add_row("seconds, start to end", f"{alone.seconds:.1f}", f"{job.seconds:.1f}")
    console.print(table)
    console.print(
        f"push_pull rate: {job.end['megabytes_per_second']:.0f} MB/s (tensors of 16 MiB, loopback)"
    )
    console.print(f"weights of both workers are bit-identical: {'yes' if identical else 'NO'}")
    close = difference <= TOLERANCE
    console.print(
        f"largest difference to the one-process weights: {difference:.1e} "
        f"({'within' if close else 'MORE THAN'} {TOLERANCE:.0e})"
    )
    learned = job.accuracies[-1] >= LEAST_ACCURACY
    if not learned:
        console.print(f"accuracy is below {LEAST_ACCURACY:.0%}: it did NOT learn")
    return identical and close and learned


def main() -> int:
    """Run both trainings and compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--output", type=Path, default=Path("demo-out"))
    arguments = parser.parse_args()
    console = Console()
    launcher = [sys.executable, "-m", "byteps.cli", "run", "-np", "2", "--servers", "2"]
    training = [sys.executable, str(TRAINING)]
    with tempfile.TemporaryDirectory(prefix="byteps-demo-") as name:
        folders = Path(name) / "alone", Path(name) / "job"
        for folder in folders:
            folder.mkdir()
        alone = run("one process", [*training, "--alone"], arguments.epochs, folders[0], console)
        job = run(
            "2 workers, 2 servers", [*launcher, *training], arguments.epochs, folders[1], console
        )
        difference = weight_difference(folders[0] / "weights", folders[1] / "weights")
    good = report(alone, job, difference, console)
    picture = arguments.output / "digits.png"
    draw(alone, job, picture)
    console.print(f"loss and accuracy of both runs: {picture}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
