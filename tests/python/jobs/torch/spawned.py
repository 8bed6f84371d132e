"""A program that starts its ranks itself, as torch's tutorials do. It imports nothing of byteps.

Arguments: the backend, how many ranks, where they meet, and how the processes begin.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

LIMIT = timedelta(seconds=240)


def meeting(place: str, rank: int, size: int) -> dict[str, Any]:
    """Return arguments of init_process_group."""
    kind, _, where = place.partition("://")
    if kind == "env":
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = where.split(":")
        return {}
    if kind == "store":
        host, port = where.split(":")
        return {"store": dist.TCPStore(host, int(port), size, rank == 0, timeout=LIMIT)}
    if kind == "filestore":
        return {"store": dist.FileStore(where, size)}
    return {"init_method": place} if where else {}


def run(rank: int, backend: str, size: int, place: str) -> None:
    """Do what a rank does."""
    where = meeting(place, rank, size)
    dist.init_process_group(backend, rank=rank, world_size=size, **where)
    group = dist.distributed_c10d._get_default_group()
    assert type(group).__module__.startswith("byteps."), type(group)
    total = torch.full((3,), rank + 1.0)
    dist.all_reduce(total)
    assert total.tolist() == [size * (size + 1) / 2] * 3
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    model(torch.full((1, 2), float(rank))).sum().backward()
    assert model.module.weight.grad.tolist() == [[(size - 1) / 2] * 2]
    some = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        dist.barrier(some)
    import byteps.torch as bps

    assert (bps.rank(), bps.size()) == (rank, size)
    where = f"{bps.local_rank()}/{bps.local_size()} on {bps.cross_rank()}/{bps.cross_size()}"
    dist.barrier()
    dist.destroy_process_group()
    os.write(1, f"all right {rank}/{size}, {where}\n".encode())


if __name__ == "__main__":
    backend, size, place, method = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    if method.isdigit():  # one rank, beside others that somebody else has started
        run(int(method), backend, size, place)
    else:
        mp.start_processes(run, (backend, size, place), nprocs=size, start_method=method)
    print("all ended", flush=True)
