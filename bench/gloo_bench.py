"""Gloo's all_reduce (torch.distributed) beside bench_push_pull: the same commands and answers.

Reads "run CASE ITERATIONS BYTES[,BYTES...]" or "run CASE ITERATIONS @FILE" from stdin; the place
in the group comes from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, the network interface from
GLOO_SOCKET_IFNAME. Started by core.py and lab.py.
"""

from __future__ import annotations

import datetime
import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from harness.usage import cpu_seconds

PERIOD = 1021


class Case:
    """The tensors of one step."""

    def __init__(self, text: str) -> None:
        if text.startswith("@"):
            lines = Path(text[1:]).read_text().splitlines()
            elements = [int(line.split()[1]) for line in lines]
        else:
            elements = [int(part) // 4 for part in text.split(",")]
        self.patterns = [
            torch.remainder(torch.arange(count) + 7 * i, PERIOD).float()
            for i, count in enumerate(elements)
        ]
        self.tensors = [torch.empty_like(pattern) for pattern in self.patterns]

    @property
    def nbytes(self) -> int:
        return sum(4 * tensor.numel() for tensor in self.tensors)

    def fill(self, rank: int) -> None:
        for tensor, pattern in zip(self.tensors, self.patterns, strict=True):
            torch.add(pattern, rank + 1, out=tensor)

    def step(self) -> None:
        """All tensors at once, in the order of a backward pass."""
        for work in [dist.all_reduce(t, async_op=True) for t in reversed(self.tensors)]:
            work.wait()

    def count_wrong(self, size: int) -> int:
        wrong = 0
        for tensor, pattern in zip(self.tensors, self.patterns, strict=True):
            wrong += int((tensor != pattern * size + size * (size + 1) / 2).sum())
        return wrong


def run(case: Case, iterations: int) -> dict[str, float]:
    """Time a number of steps. Only the first one's result is checked: all_reduce works in place."""
    rank, size = dist.get_rank(), dist.get_world_size()
    wrong = 0
    if iterations > 1:
        case.fill(rank)
        case.step()
        wrong = case.count_wrong(size)
        for tensor in case.tensors:
            tensor.zero_()
    else:
        case.fill(rank)
    dist.barrier()
    cpu = cpu_seconds()
    begin = time.monotonic_ns()
    for _ in range(iterations):
        case.step()
    end = time.monotonic_ns()
    cpu = (cpu_seconds() - cpu) / iterations
    if iterations == 1:
        wrong = case.count_wrong(size)
    return {
        "rank": rank,
        "size": size,
        "bytes": case.nbytes,
        "iterations": iterations,
        "seconds": (end - begin) * 1e-9 / iterations,
        "cpu_seconds": cpu,
        "begin_ns": begin,
        "end_ns": end,
        "wrong": wrong,
    }


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=300))
    cases: dict[str, Case] = {}
    for line in sys.stdin:
        _, name, iterations, tensors = line.split()
        if name not in cases:
            cases[name] = Case(tensors)
        print(json.dumps({"case": name, **run(cases[name], int(iterations))}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
