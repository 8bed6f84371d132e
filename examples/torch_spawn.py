"""A program that starts its ranks itself, as torch's tutorials do, over byteps.

    python examples/torch_spawn.py

It needs no launcher: `init_process_group` says who each rank is, and where they meet.
`torch_spawn.py gloo` is the same program over Gloo.
"""

from __future__ import annotations

import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from regression import STEPS, chosen_backend, fingerprint, loss_of, make_model

WORLD_SIZE = 2


def run(rank: int, backend: str, world_size: int) -> None:
    """Train, as one of the ranks."""
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(make_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, rank, step).backward()
        optimizer.step()
    print(f"weights {fingerprint(model.parameters())}", flush=True)
    dist.destroy_process_group()


def main() -> None:
    """Start the ranks, and wait for them."""
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        os.environ["MASTER_PORT"] = str(probe.getsockname()[1])
    mp.spawn(run, args=(chosen_backend(), WORLD_SIZE), nprocs=WORLD_SIZE)


if __name__ == "__main__":
    main()
