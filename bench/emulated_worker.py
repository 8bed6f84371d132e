"""A worker that trains nothing: the layers of a model as waits, their gradients as exchanges.

    emulated_worker.py byteps|fifo|ddp

Reads "run CASE STEPS @FILE" from stdin; the file has a line "NAME ELEMENTS FORWARD_US BACKWARD_US"
for each layer. `byteps` sends each gradient when it is there, the first layer's as the most urgent
one, and begins a layer's forward pass when that layer's gradient is back. `fifo` is the same
without priorities. `ddp` is torch's DistributedDataParallel over Gloo: buckets of 25 MB, and the
next step begins when all are back. Started by lab.py.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from harness.usage import cpu_seconds

BUCKET_BYTES = 25 << 20
# A wait for the time may take so much longer, and waits for gradients count in full beyond it.
LONGER_WAIT_S = 3e-4


@dataclass
class Layer:
    """One layer: what it computes, and its gradient."""

    name: str
    forward_s: float
    backward_s: float
    gradient: Any
    result: Any


class Library(Protocol):
    """How gradients are exchanged."""

    size: int
    rank: int

    def send(self, number: int, layer: Layer) -> None:
        """Start with a gradient; layers come last first."""

    def receive(self, number: int) -> None:
        """Wait until a layer's gradient is back, if one is on its way."""

    def finish(self) -> None:
        """Wait for all."""


class BytePS:
    """Each gradient by itself, the first layers' first, or in the order of their coming."""

    def __init__(self, with_priority: bool) -> None:
        import byteps.numpy as bps

        bps.init()
        self._bps: Any = bps
        self._with_priority = with_priority
        self._handles: dict[int, Any] = {}
        self.size, self.rank = bps.size(), bps.rank()

    def send(self, number: int, layer: Layer) -> None:
        from byteps.common.operations.calls import push_pull_call
        from byteps.numpy.arrays import start_exchange

        call = push_pull_call(False, layer.name, -number if self._with_priority else 0)
        self._handles[number] = start_exchange(call, layer.gradient, layer.result)

    def receive(self, number: int) -> None:
        handle = self._handles.pop(number, None)
        if handle is not None:
            self._bps.synchronize(handle)

    def finish(self) -> None:
        for number in sorted(self._handles):
            self.receive(number)


class DDP:
    """Buckets, and a barrier at the end of the step."""

    def __init__(self) -> None:
        import datetime

        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=300))
        self._torch: Any = torch
        self._dist: Any = dist
        self._bucket: list[Layer] = []
        self._works: list[Any] = []
        self.size, self.rank = dist.get_world_size(), dist.get_rank()

    def send(self, number: int, layer: Layer) -> None:
        self._bucket.append(layer)
        if number == 0 or sum(one.gradient.nbytes for one in self._bucket) >= BUCKET_BYTES:
            self._send_bucket()

    def _send_bucket(self) -> None:
        whole = np.concatenate([layer.gradient for layer in self._bucket])
        self._works.append(self._dist.all_reduce(self._torch.from_numpy(whole), async_op=True))
        begin = 0
        for layer in self._bucket:
            layer.result = whole[begin : begin + layer.gradient.size]
            begin += layer.gradient.size
        self._bucket.clear()

    def receive(self, number: int) -> None:
        self.finish()

    def finish(self) -> None:
        for work in self._works:
            work.wait()
        self._works.clear()


def read_layers(path: Path, rank: int) -> list[Layer]:
    layers = []
    for line in path.read_text().splitlines():
        name, elements, forward, backward = line.split()
        count = int(elements)
        gradient: Any = np.full(count, rank + 1, np.float32)
        times = (float(forward) * 1e-6, float(backward) * 1e-6)
        layers.append(Layer(name, *times, gradient, np.zeros_like(gradient)))
    return layers


class Clock:
    """Computes by waiting until the moment at which the computation would be over."""

    def __init__(self) -> None:
        self._over = time.monotonic()

    def compute(self, seconds: float) -> None:
        """A computation that begins now; if the last wait took a bit too long, then before that."""
        self._over = max(self._over, time.monotonic() - LONGER_WAIT_S) + seconds
        time.sleep(max(0.0, self._over - time.monotonic()))


def step(layers: Sequence[Layer], library: Library, clock: Clock) -> None:
    for number, layer in enumerate(layers):
        library.receive(number)
        clock.compute(layer.forward_s)
    for number in reversed(range(len(layers))):
        clock.compute(layers[number].backward_s)
        library.send(number, layers[number])


def run(layers: Sequence[Layer], library: Library, steps: int) -> dict[str, Any]:
    """From the end of a backward pass to the end of the last: whole steps, none of them cold."""
    clock = Clock()
    step(layers, library, clock)
    cpu, begin = cpu_seconds(), time.monotonic_ns()
    for _ in range(steps):
        step(layers, library, clock)
    cpu, end = cpu_seconds() - cpu, time.monotonic_ns()
    library.finish()
    expected = library.size * (library.size + 1) / 2
    wrong = sum(int((layer.result[::997] != expected).sum()) for layer in layers)
    return {
        "rank": library.rank,
        "size": library.size,
        "iterations": steps,
        "seconds": (end - begin) * 1e-9 / steps,
        "cpu_seconds": cpu / steps,
        "begin_ns": begin,
        "end_ns": end,
        "wrong": wrong,
    }


LIBRARIES: dict[str, Callable[[], Library]] = {
    "byteps": lambda: BytePS(with_priority=True),
    "fifo": lambda: BytePS(with_priority=False),
    "ddp": DDP,
}


def main() -> None:
    library = LIBRARIES[sys.argv[1]]()
    cases: dict[str, list[Layer]] = {}
    for line in sys.stdin:
        _, name, steps, file = line.split()
        if name not in cases:
            cases[name] = read_layers(Path(file[1:]), library.rank)
        print(json.dumps({"case": name, **run(cases[name], library, int(steps))}), flush=True)


if __name__ == "__main__":
    main()
