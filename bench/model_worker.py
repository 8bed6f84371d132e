"""A worker that trains the same small model as every other job of its kind.

    model_worker.py byteps|gloo

Reads "run NAME STEPS" from stdin: trains a perceptron of three layers from the same beginning, on
data that only the rank decides. The ranks average its gradients as float32, and those of a second
model as float16. The answer has a hash of the weights of each. Started by lab.py.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

# One order of the additions inside a matrix product, whatever the machine has to do.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from harness.usage import cpu_seconds

LAYERS = (64, 128, 128, 10)
BATCH = 32
RATE = np.float32(0.05)
SEED = 47

Average = Callable[[Any, str], Any]


def byteps_average() -> tuple[Average, int, int]:
    import byteps.numpy as bps

    bps.init()
    return lambda tensor, name: bps.push_pull(tensor, name=name), bps.rank(), bps.size()


def gloo_average() -> tuple[Average, int, int]:
    import datetime

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=300))

    def average(tensor: Any, name: str) -> Any:
        total = torch.from_numpy(tensor)
        dist.all_reduce(total)
        return (total / dist.get_world_size()).numpy()

    return average, dist.get_rank(), dist.get_world_size()


LIBRARIES = {"byteps": byteps_average, "gloo": gloo_average}


def gradients(weights: list[Any], inputs: Any, targets: Any) -> list[Any]:
    """Return the gradients of half the squared error, layer by layer."""
    values = [inputs]
    for weight in weights:
        values.append(np.tanh(values[-1] @ weight))
    error = (values[-1] - targets) / np.float32(BATCH)
    found = []
    for weight, before, after in zip(weights[::-1], values[-2::-1], values[:0:-1], strict=True):
        error = error * (1 - after * after)
        found.append(before.T @ error)
        error = error @ weight.T
    return found[::-1]


def train(average: Average, rank: int, steps: int, kind: type) -> str:
    """Return a hash of the weights after so many steps."""
    begin = np.random.default_rng(SEED)
    weights = [
        begin.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[0]))
        for shape in itertools.pairwise(LAYERS)
    ]
    data = np.random.default_rng([SEED, rank])
    for _ in range(steps):
        inputs = data.standard_normal((BATCH, LAYERS[0]), dtype=np.float32)
        targets = np.tanh(inputs[:, : LAYERS[-1]])
        for i, gradient in enumerate(gradients(weights, inputs, targets)):
            mean = average(np.ascontiguousarray(gradient.astype(kind)), f"{kind.__name__}/{i}")
            weights[i] = weights[i] - RATE * mean.astype(np.float32)
    return hashlib.sha256(b"".join(weight.tobytes() for weight in weights)).hexdigest()


def main() -> None:
    average, rank, size = LIBRARIES[sys.argv[1]]()
    for line in sys.stdin:
        _, case, steps = line.split()
        cpu, begin_ns = cpu_seconds(), time.monotonic_ns()
        hashes = {
            kind.__name__: train(average, rank, int(steps), kind)
            for kind in (np.float32, np.float16)
        }
        answer = {
            "case": case,
            "rank": rank,
            "size": size,
            "cpu_seconds": cpu_seconds() - cpu,
            "begin_ns": begin_ns,
            "end_ns": time.monotonic_ns(),
            "wrong": 0,
            **hashes,
        }
        print(json.dumps(answer), flush=True)
    sys.stdout.flush()
    os._exit(0)  # a group that its ranks leave one by one complains


if __name__ == "__main__":
    main()
