"""A rank that trains parameters with a model's shapes, and exchanges their gradients.

    step_worker.py MODEL optimizer|hook|ddp

Reads "run CASE STEPS" from stdin and takes so many steps of SGD: forward and backward of a sum of
products, one for each parameter, so that computation is as short as it can be. `optimizer` is
byteps.torch.DistributedOptimizer, `hook` torch's DistributedDataParallel with
byteps.torch.ddp_comm_hook, `ddp` the same over Gloo. Started by local_step.py.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from harness.shapes import load_shapes
from harness.usage import cpu_seconds

import byteps.torch as bps

LEARNING_RATE = 2.0**-10


class Sums(torch.nn.Module):
    """Parameters whose gradients are the input, times the rank's number."""

    def __init__(self, shapes: list[list[int]]) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.zeros(shape) for shape in shapes)
        self.factors = [torch.ones(shape) for shape in shapes]

    def forward(self, scale: torch.Tensor) -> torch.Tensor:
        pairs = zip(self.weights, self.factors, strict=True)
        return torch.stack([torch.dot(w.flatten(), f.flatten()) for w, f in pairs]).sum() * scale


class Trainer:
    """A model, its optimizer, and what exchanges the gradients."""

    def __init__(self, model: str, kind: str) -> None:
        torch.set_num_threads(1)
        net: Any = Sums([shape for _, shape in load_shapes(model).tensors])
        self.weights = list(net.parameters())
        self.steps = 0
        if kind == "ddp":
            dist.init_process_group("gloo")
            self.rank, self.size = dist.get_rank(), dist.get_world_size()
        else:
            bps.init()
            self.rank, self.size = bps.rank(), bps.size()
        if kind == "hook":
            # Each rank is a world of its own to torch, and the hook exchanges.
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        if kind != "optimizer":
            net = torch.nn.parallel.DistributedDataParallel(net)
        if kind == "hook":
            net.register_comm_hook(None, bps.ddp_comm_hook)
        self.net = net
        self.optimizer: Any = torch.optim.SGD(self.weights, lr=LEARNING_RATE)
        if kind == "optimizer":
            self.optimizer = bps.DistributedOptimizer(self.optimizer, net.named_parameters())

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.net(torch.tensor(float(self.rank + 1))).backward()
        self.optimizer.step()
        self.steps += 1

    def count_wrong(self) -> int:
        """Weights are what all averages so far have made of them: sums of powers of two."""
        expected = -LEARNING_RATE * self.steps * (self.size + 1) / 2
        return sum(int((weight != expected).sum()) for weight in self.weights)


def main() -> None:
    trainer = Trainer(sys.argv[1], sys.argv[2])
    for line in sys.stdin:
        _, case, steps = line.split()
        trainer.step()  # the ranks begin together
        cpu, begin = cpu_seconds(), time.monotonic_ns()
        for _ in range(int(steps)):
            trainer.step()
        cpu, end = cpu_seconds() - cpu, time.monotonic_ns()
        answer = {
            "case": case,
            "rank": trainer.rank,
            "cpu_seconds": cpu / int(steps),
            "begin_ns": begin,
            "end_ns": end,
            "wrong": trainer.count_wrong(),
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
