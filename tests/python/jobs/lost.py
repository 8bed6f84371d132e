"""A worker of a job of three that goes on with two: rank 0, the root of all things, is killed.

With the argument `frozen` it is stopped instead, and so is torch's store, which it serves.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

import byteps.torch as bps

LEFT = [1, 2]
LIMIT_S = 10.0


def expect_lost(call: Callable[[], object]) -> None:
    begin = time.monotonic()
    with pytest.raises(bps.PeerLostError, match=r"(?s)rank 0\b.*start the job again"):
        call()
    assert time.monotonic() - begin < LIMIT_S


def check_torch_distributed(group: dist.ProcessGroup) -> None:
    """Every kind of collective, twice, and one that was on its way beside another."""
    ones = torch.ones(2)
    for _ in range(2):
        expect_lost(lambda: dist.all_reduce(ones.clone(), dist.ReduceOp.AVG))
        expect_lost(lambda: dist.all_gather([torch.empty(2) for _ in range(3)], ones))
        expect_lost(lambda: dist.all_reduce(ones.clone(), dist.ReduceOp.BOR))
    for root in (0, 1):
        expect_lost(lambda root=root: dist.broadcast(ones.clone(), root))
    expect_lost(lambda: dist.reduce_scatter_tensor(torch.empty(1), torch.ones(3)))
    expect_lost(lambda: dist.all_to_all_single(torch.empty(3), torch.ones(3)))
    expect_lost(dist.barrier)
    works = [dist.all_reduce(ones.clone(), async_op=True) for _ in range(2)]
    for work in works:
        expect_lost(work.wait)
    dist.all_reduce(ones, group=group)  # of those who are left
    assert ones.tolist() == [2.0, 2.0]
    expect_lost(lambda: dist.new_group(LEFT))


def check_torch_model(model: torch.nn.Module) -> None:
    """torch's DistributedDataParallel: an error, not another average."""
    with pytest.raises(RuntimeError, match=r"PeerLostError: .*rank 0"):
        model(torch.ones(1, 2)).sum().backward()


def expect_gone(how: int) -> None:
    """Come with rank 0 to the same place; leave it there."""
    bps.barrier()
    if bps.rank() == 0:
        os.kill(os.getpid(), how)
        time.sleep(60)  # of a stopped one that is continued


def main() -> None:
    torch.set_num_threads(1)
    bps.init()
    rank = bps.rank()
    dist.init_process_group("byteps")
    group = dist.new_group(LEFT)
    if sys.argv[1:] == ["frozen"]:
        victim = bps.allgather_object(os.getpid())[0]
        expect_gone(signal.SIGSTOP)
        expect_lost(lambda: dist.all_reduce(torch.ones(2)))
        expect_lost(lambda: dist.new_group([0, 1, 2]))
        dist.all_reduce(torch.ones(2), group=group)
        if rank == LEFT[0]:
            os.kill(victim, signal.SIGKILL)
    else:
        torchs = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
        for _ in range(3):  # it cuts its buckets anew
            torchs(torch.ones(1, 2)).sum().backward()
        expect_gone(signal.SIGKILL)
        check_torch_distributed(group)
        check_torch_model(torchs)
    dist.destroy_process_group()
    bps.shutdown()
    print(f"all right {rank}/{len(LEFT)}")


if __name__ == "__main__":
    main()
