"""Trains a small convolutional network on scikit-learn's handwritten digits.

On two workers and two servers: ``bps run -np 2 --servers 2 python examples/torch_digits.py``.
In one process, without byteps: ``python examples/torch_digits.py --alone``. Both see the same
batches, so both learn the same, whatever the number of workers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from pathlib import Path
from typing import Any, TextIO

import torch
from sklearn.datasets import load_digits
from torch import nn

import byteps.torch as bps

TRAINED_ON = 1472  # of 1797 images; the others are for the test
BATCH = 64  # of all workers together
SPEED_BYTES = 16 << 20
SPEED_ROUNDS = 10


def load_data() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the images, in a fixed random order, and what they show."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    return images[order], torch.tensor(digits.target)[order]


def make_model() -> nn.Module:
    """Return two convolutions and two dense layers."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


class Ranks:
    """What differs between one process and many: everything byteps does is here."""

    def __init__(self, alone: bool) -> None:
        self.alone = alone
        if not alone:
            bps.init()
        self.rank = 0 if alone else bps.rank()
        self.size = 1 if alone else bps.size()

    def prepare(self, model: nn.Module, optimizer: Any) -> Any:
        """Start from the weights of rank 0, step on the gradients of all ranks."""
        if self.alone:
            return optimizer
        bps.broadcast_parameters(model.state_dict(), root_rank=0)
        return bps.DistributedOptimizer(optimizer, model.named_parameters())

    def share(self, batch: torch.Tensor) -> torch.Tensor:
        """Return this rank's part of a batch; it may be smaller than another's, or empty."""
        return batch.tensor_split(self.size)[self.rank]

    def loss(self, outputs: torch.Tensor, labels: torch.Tensor, batch_size: int) -> torch.Tensor:
        """Return a loss whose mean over all ranks is the mean over the batch."""
        return nn.functional.cross_entropy(outputs, labels, reduction="sum") * (
            self.size / batch_size
        )

    def mean(self, value: float, name: str) -> float:
        """Return the mean over all ranks."""
        mine = torch.tensor([value], dtype=torch.float64)
        return float(mine if self.alone else bps.push_pull(mine, name=name))

    def digests(self, model: nn.Module) -> list[str]:
        """Return a fingerprint of the weights of each rank."""
        weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
        mine = torch.tensor(list(hashlib.sha256(weights).digest()), dtype=torch.uint8)
        rows = mine.unsqueeze(0) if self.alone else bps.allgather(mine.unsqueeze(0), "digests")
        return [bytes(row.tolist()).hex() for row in rows]

    def speed(self) -> float:
        """Return how many MB of a tensor are combined in a second."""
        if self.alone:
            return 0.0
        tensor = torch.ones(SPEED_BYTES // 4)
        bps.push_pull_inplace(tensor, name="speed")
        bps.barrier("before the clock")
        start = time.perf_counter()
        for _ in range(SPEED_ROUNDS):
            bps.push_pull_inplace(tensor, name="speed")
        return SPEED_BYTES * SPEED_ROUNDS / 1e6 / (time.perf_counter() - start)


class Events:
    """Tells a watching program about the progress: one JSON object in a line."""

    def __init__(self, path: Path | None) -> None:
        self._stream: TextIO | None = path.open("w", buffering=1) if path else None

    def send(self, kind: str, **values: Any) -> None:
        """Send one event, if anybody listens."""
        if self._stream:
            self._stream.write(json.dumps({"kind": kind, **values}) + "\n")


def train(ranks: Ranks, epochs: int, dtype: torch.dtype, events: Events) -> nn.Module:
    """Train, and report the loss of each step and the accuracy after each epoch."""
    images, labels = load_data()
    images = images.to(dtype)
    torch.manual_seed(ranks.rank)  # different weights, until rank 0's are broadcast
    model = make_model().to(dtype)
    optimizer = ranks.prepare(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
    for epoch in range(epochs):
        order = torch.randperm(TRAINED_ON, generator=torch.Generator().manual_seed(epoch))
        losses = []
        for batch in order.split(BATCH):
            mine = ranks.share(batch)
            optimizer.zero_grad()
            loss = ranks.loss(model(images[mine]), labels[mine], len(batch))
            loss.backward()
            optimizer.step()
            losses.append(ranks.mean(loss.item(), "loss"))
            events.send("step", loss=losses[-1])
        accuracy = test(model, images[TRAINED_ON:], labels[TRAINED_ON:])
        mean_loss = sum(losses) / len(losses)
        events.send("epoch", loss=mean_loss, accuracy=accuracy)
        if ranks.rank == 0:
            print(f"epoch {epoch + 1}/{epochs}: loss {mean_loss:.4f}, accuracy {accuracy:.1%}")
    return model


@torch.no_grad()
def test(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the share of images that are recognised."""
    return float((model(images).argmax(1) == labels).double().mean())


def main() -> None:
    """Train as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alone", action="store_true", help="one process, without byteps")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--float64", action="store_true", help="train in double precision")
    parser.add_argument("--events", type=Path, help="where rank 0 writes its progress")
    parser.add_argument("--weights", type=Path, help="where rank 0 saves the weights")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    ranks = Ranks(arguments.alone)
    events = Events(arguments.events if ranks.rank == 0 else None)
    dtype = torch.float64 if arguments.float64 else torch.float32
    model = train(ranks, arguments.epochs, dtype, events)
    digests, speed = ranks.digests(model), ranks.speed()
    events.send("end", digests=digests, megabytes_per_second=speed)
    if ranks.rank == 0 and arguments.weights:
        torch.save(model.state_dict(), arguments.weights)
    if not ranks.alone:
        bps.shutdown()


if __name__ == "__main__":
    main()
