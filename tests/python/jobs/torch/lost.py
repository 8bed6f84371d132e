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
from torch_features import HAS_OPERATIONS

import byteps.torch as bps
from byteps.torch.parallel import DistributedDataParallel

LEFT = [1, 2]


def expect_lost(call: Callable[[], object]) -> None:
    with pytest.raises(bps.PeerLostError, match=r"(?s)rank 0\b.*start the job again"):
        call()


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


def check_buffers(model: DistributedDataParallel, rank: int) -> None:
    """The lowest rank that is left has the buffers of all; gradients are averages of two."""
    mean = model.module.running_mean
    for step in range(2):
        mean.fill_(10.0 * rank + step)
        model.module.running_var.fill_(1.0)
        model.zero_grad()
        model(torch.full((1, 2), float(rank))).sum().backward()
        assert mean.tolist() == [10.0 + step] * 2
        values = torch.tensor([float(r) - 10.0 - step for r in LEFT])
        expected = values.mean() / (1.0 + model.module.eps) ** 0.5
        assert torch.allclose(model.module.weight.grad, expected.expand(2))
    again = DistributedDataParallel(torch.nn.BatchNorm1d(2).eval().requires_grad_(False))
    again.module.running_mean.fill_(rank)
    again(torch.ones(1, 2))
    assert again.module.running_mean.tolist() == [1.0, 1.0]


def compiled_reducescatter(tensor: torch.Tensor, op: bps.ReduceOp) -> torch.Tensor:
    return torch.ops.byteps.reducescatter(tensor, bps.rank(), bps.size(), None, op.name)[0]


def compiled_alltoall(tensor: torch.Tensor, splits: list[int]) -> torch.Tensor:
    return torch.ops.byteps.alltoall(tensor, bps.size(), torch.tensor(splits))[0]


def check_reducescatter(rank: int) -> None:
    """Rows 0 and 1 of four were rank 0's: nobody has used them. Averages are of two."""
    ways = [lambda t, op: bps.reducescatter(t, op=op), compiled_reducescatter]
    for scatter in ways if HAS_OPERATIONS else ways[:1]:
        for op, count in ((bps.Sum, 1), (bps.Average, 2)):
            tensor = torch.ones(4, 2, requires_grad=True)
            mine = scatter(tensor, op)
            assert torch.equal(mine, torch.full((1, 2), 2.0 / count))
            (mine * (rank + 1)).sum().backward()
            rows = [0.0, 0.0, *[(r + 1.0) / count for r in LEFT]]
            assert tensor.grad.tolist() == [[row, row] for row in rows]
    pair = [torch.ones(3, requires_grad=True), torch.ones(3, 1, requires_grad=True)]
    sum(part.sum() for part in bps.grouped_reducescatter(pair)).backward()
    assert [t.grad.flatten().tolist() for t in pair] == [[0.0, 0.5, 0.5]] * 2
    largest = torch.full((3,), float(rank), requires_grad=True)
    bps.reducescatter(largest, op=bps.Max).sum().backward()
    assert largest.grad.tolist() == ([0.0] * 3 if rank == 1 else [0.0, 1.0, 1.0])


def check_alltoall(rank: int) -> None:
    """The row for rank 0 never comes back."""
    splits = [1, 2, 1]
    ways = [lambda t, s: bps.alltoall(t, s)[0], compiled_alltoall]
    for exchange in ways if HAS_OPERATIONS else ways[:1]:
        tensor = torch.arange(4.0).reshape(4, 1).requires_grad_()
        rows = exchange(tensor, splits)
        assert rows.flatten().tolist() == ([1.0, 2.0] * 2 if rank == 1 else [3.0] * 2)
        (rows * (rank + 1)).sum().backward()
        assert tensor.grad.flatten().tolist() == [0.0, 2.0, 2.0, 3.0]


def check_objects() -> None:
    """The root had the bytes of an object, as those of a tensor; others have their own."""
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for call in (
        lambda: bps.broadcast(torch.ones(1), 0),
        lambda: bps.broadcast_object("anything", 0),
        lambda: bps.broadcast_object("anything", 0, name="object"),
        lambda: bps.broadcast_parameters(model.state_dict(), 0),
        lambda: bps.broadcast_optimizer_state(optimizer, 0),
    ):
        with pytest.raises(bps.PeerLostError, match="rank 0 was lost"):
            call()
    assert bps.broadcast_object(bps.rank(), LEFT[0]) == LEFT[0]
    assert bps.allgather_object(bps.rank()) == LEFT


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
        model = DistributedDataParallel(torch.nn.BatchNorm1d(2))
        for first in (torchs, torchs, torchs, model.eval()):  # torch's cuts its buckets twice
            first(torch.ones(1, 2)).sum().backward()
        expect_gone(signal.SIGKILL)
        check_torch_distributed(group)
        check_torch_model(torchs)
        check_buffers(model, rank)
        check_reducescatter(rank)
        check_alltoall(rank)
        check_objects()
    dist.destroy_process_group()
    expect_lost(lambda: dist.init_process_group("byteps"))
    bps.shutdown()
    print(f"all right {rank}/{len(LEFT)}")


if __name__ == "__main__":
    main()
