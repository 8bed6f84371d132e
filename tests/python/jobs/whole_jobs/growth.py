"""What a long program makes and drops: names, shapes, process sets, optimizers, in parts.

    growth.py KIND COUNT PARTS

After each part rank 0 prints `part N` and waits for a line of input, so that somebody can look at
the memory of all processes meanwhile; the other ranks wait for rank 0.
"""

from __future__ import annotations

import gc
import sys

import numpy as np

import byteps.numpy as bps


def names(first: int, count: int) -> None:
    """Sum under names that are used once; and one that is used all the time."""
    one = np.ones(16, np.float32)
    for number in range(first, first + count):
        assert bps.allreduce(one, op=bps.Sum, name=f"name {number}")[0] == bps.size()
        if number % 8 == 0:
            assert bps.allreduce(one, op=bps.Sum, name="always")[0] == bps.size()


def shapes(first: int, count: int) -> None:
    """Sum under one name, in a shape that never comes again."""
    for number in range(first, first + count):
        rows = 1 + number % 61
        array = np.ones((rows, 1 + number // 61), np.uint8)[:, :1].copy()
        shape = (rows,) + (1,) * (number // 61 % 31)
        result = bps.allreduce(array.reshape(shape), op=bps.Max, name=f"shapes {number // 1891}")
        assert result.flat[0] == 1


def sets(first: int, count: int) -> None:
    """Add a process set, sum in it, and remove it."""
    for _ in range(first, first + count):
        process_set = bps.add_process_set([0])
        if bps.rank() == 0:
            bps.allreduce(np.ones(4), op=bps.Sum, name="in a set", process_set=process_set)
        assert bps.remove_process_set(process_set)


def optimizers(first: int, count: int) -> None:
    """Train a model of 100 parameters for two steps with an optimizer of its own."""
    import torch

    import byteps.torch as bps_torch

    for _ in range(first, first + count):
        model = torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(50)])
        optimizer = bps_torch.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters()
        )
        for _ in range(2):
            optimizer.zero_grad()
            value = torch.ones(1, 2)
            for layer in model:
                value = layer(value)
            value.sum().backward()
            optimizer.step()


def main() -> None:
    """Do all parts."""
    kind, count, parts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    work = {"names": names, "shapes": shapes, "sets": sets, "optimizers": optimizers}[kind]
    bps.init()
    for part in range(parts):
        work(part * count // parts, count // parts)
        gc.collect()
        bps.barrier()
        if bps.rank() == 0:
            print("part", part + 1, flush=True)
            sys.stdin.readline()
        bps.barrier()
    bps.shutdown()


if __name__ == "__main__":
    main()
