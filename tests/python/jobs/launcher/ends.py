"""A worker that ends badly, in the way that the first argument names; nobody catches anything."""

from __future__ import annotations

import os
import sys
import time

import torch
import torch.distributed as dist

import byteps.torch as bps


def step_for_ever() -> None:
    bps.allreduce(torch.ones(2), name="first")
    print("stepping", os.getpid(), flush=True)
    while True:
        bps.allreduce(torch.ones(2), name="step")


def disagree() -> None:
    bps.allreduce(torch.ones(bps.rank() + 1), name="shapes")


def disagree_in_a_group() -> None:
    """Torch's own interface, in which the rank that finds the difference first leaves first."""
    dist.init_process_group("byteps")
    dist.all_reduce(torch.ones(dist.get_rank() + 1))


def exit_with_a_code() -> None:
    """Rank 1 ends with an exit code of its own while the others wait for it."""
    bps.allreduce(torch.ones(2), name="first")
    if bps.rank() == 1:
        sys.exit(9)
    bps.allreduce(torch.ones(2), name="second")


def catch_an_exit() -> None:
    """Rank 1 catches a sys.exit, and then ends in order before the others do."""
    if bps.rank() == 1:
        try:
            sys.exit(9)
        except SystemExit:
            return
    time.sleep(1)
    print("members:", bps.members())


def end_without_join() -> None:
    """The last rank has one batch more."""
    for _ in range(2 if bps.rank() == bps.size() - 1 else 1):
        bps.allreduce(torch.ones(2), name="step")


def raise_in_ddp() -> None:
    """Rank 1, between two steps of torch's DistributedDataParallel with several buckets."""
    dist.init_process_group("byteps")
    layers = torch.nn.Sequential(*[torch.nn.Linear(40, 40) for _ in range(6)])
    model = torch.nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=0.003)
    for step in range(1000):
        if dist.get_rank() == 1 and step == 5:
            raise RuntimeError("no data")
        model(torch.ones(2, 40)).sum().backward()


if __name__ == "__main__":
    torch.set_num_threads(1)
    bps.init()
    ways = {
        "step": step_for_ever,
        "disagree": disagree,
        "group": disagree_in_a_group,
        "exit": exit_with_a_code,
        "caught": catch_an_exit,
        "uneven": end_without_join,
        "ddp": raise_in_ddp,
    }
    ways[sys.argv[1]]()
