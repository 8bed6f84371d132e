"""Ranks that run out of data."""

from __future__ import annotations

import pytest
import torch

import byteps.torch as bps
from byteps.torch.cross_barrier import CrossBarrier


def check_uneven_steps(rank: int, size: int) -> None:
    for turn in range(3):
        steps = 2 * ((rank + turn) % size) + 1
        for step in range(steps):
            there = [r for r in range(size) if 2 * ((r + turn) % size) + 1 > step]
            mine = torch.tensor([float(rank + 1)])
            mean = bps.allreduce(mine, name="joined mean")
            assert abs(mean.item() - sum(r + 1 for r in there) / size) < 1e-6
            # Without a name: ranks make different numbers of calls.
            assert bps.allreduce(mine, op=bps.Sum).item() == sum(r + 1 for r in there)
            assert bps.allreduce(mine, op=bps.Max).item() == max(there) + 1
            rows = bps.allgather(torch.tensor([rank]), name="joined rows")
            assert rows.tolist() == there
            group = bps.grouped_allreduce([mine, torch.ones(2)], op=bps.Sum)
            assert group[1].tolist() == [len(there)] * 2
            bps.barrier()
        last = bps.join()
        assert bps.allgather(torch.tensor([last])).tolist() == [last] * size
    assert bps.allreduce(torch.ones(1), op=bps.Sum).item() == size


def check_process_sets_go_on_without_ranks_that_have_joined(rank: int, size: int) -> None:
    """Ranks of one machine may have joined and may work on."""
    if size < 3:
        return
    evens = bps.add_process_set(range(0, size, 2))
    others = bps.add_process_set(range(1, size))
    if rank > 0:
        if evens.included():
            there = [float(r) for r in evens.ranks[1:]]
            for _ in range(3):
                mine = torch.tensor([float(rank)])
                total = bps.allreduce(mine, op=bps.Sum, process_set=evens)
                assert total.item() == sum(there)
                mean = bps.allreduce(mine, process_set=evens)
                assert abs(mean.item() - sum(there) / evens.size()) < 1e-6
                rows = bps.allgather(mine, process_set=evens)
                assert rows.tolist() == there
        # Until the sums above are there, no rank but 0 joins.
        assert bps.allreduce(torch.ones(1), op=bps.Sum, process_set=others).item() == size - 1
    bps.join()
    for one in (evens, others):
        assert bps.remove_process_set(one)


def check_roots(rank: int, size: int) -> None:
    """A rank that has joined has nothing to tell."""
    if rank > 0:
        for call in (
            lambda: bps.broadcast(torch.ones(1), 0),
            lambda: bps.broadcast_object("anything", 0),
        ):
            with pytest.raises(bps.InvalidArgumentError, match="rank 0 has joined"):
                call()
        assert bps.broadcast_object(rank, size - 1) == size - 1
    bps.join()


def check_gradients(rank: int, size: int) -> None:
    """Of results that have no rows of the ranks before this one."""
    for step in range(size):
        there = list(range(step, size))  # the first ranks join first
        if rank in there:
            leaf = torch.ones(rank + 1, requires_grad=True)
            rows = bps.allgather(leaf, name="joined gradient")
            again = bps.grouped_allgather([torch.ones(0), leaf], name="joined gradients")[1]
            weights = torch.arange(len(rows)).float()
            (rows * weights + again * weights).sum().backward()
            begin = sum(r + 1 for r in range(step, rank))
            mine = weights[begin : begin + rank + 1]
            assert torch.allclose(leaf.grad, 2 * mine * len(there) / size)
            single = torch.tensor(float(rank), requires_grad=True)
            bps.allreduce(single, name="joined extreme", op=bps.Max).backward()
            assert single.grad.item() == (len(there) if rank == size - 1 else 0)
        elif rank == step - 1:
            bps.join()
    if rank == size - 1:
        bps.join()


def check_uneven_training(rank: int, size: int) -> None:
    weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = bps.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("uneven", weight)])
    for _ in range(rank + 1):
        optimizer.zero_grad()
        (weight * (rank + 1)).sum().backward()
        optimizer.step()
    bps.join()
    last = weight.detach().clone()
    bps.broadcast_(last, size - 1, name="the last rank's weight")
    total = -sum((r + 1) * (r + 1) for r in range(size)) / size
    assert abs(last.item() - total) < 1e-12


def check_who_worked_on_has_joined_last(rank: int, size: int) -> None:
    """Also if the shard of the join hears of it before it hears of the others."""
    for turn in range(100):
        last = turn % size
        for _ in range(1 + (rank - last - 1) % size):
            bps.allreduce(torch.ones(2), name=f"worked on {turn % 7}")
        assert bps.join() == last


def check_equal_weights_after_join(rank: int, size: int) -> None:
    """The one call that README names."""
    model = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    optimizer = bps.DistributedOptimizer(optimizer, [("one call", model.weight)])
    for _ in range(rank + 1):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    bps.broadcast_parameters(model.state_dict(), root_rank=bps.join())
    steps = sum((size - step) / size for step in range(size))
    assert torch.allclose(model.weight, torch.full((1, 2), -steps))
    bps.check_replicas(model)


def check_uneven_cross_barrier(rank: int, size: int) -> None:
    """The last step is still on its way when a rank joins."""
    model = torch.nn.Linear(1, 1, bias=False, dtype=torch.float64)
    torch.nn.init.zeros_(model.weight)
    optimizer = CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=1.0))
    for _ in range(rank + 1):
        model(torch.full((1, 1), rank + 1.0, dtype=torch.float64)).sum().backward()
        optimizer.step()
    bps.join()
    last = model.weight.detach().clone()
    bps.broadcast_(last, size - 1, name="the last rank's weight")
    total = -sum((r + 1) * (r + 1) for r in range(size)) / size
    assert abs(last.item() - total) < 1e-12


def check_join_waits_for_nothing_of_its_own(rank: int, size: int) -> None:
    handle = bps.allreduce_async(torch.ones(1), name="open at the join", op=bps.Sum)
    bps.synchronize(handle)
    assert 0 <= bps.join(device=-1) < size


def check_root_that_has_joined(rank: int, size: int) -> None:
    if size < 2:
        return
    if rank > 0:
        try:
            bps.broadcast(torch.ones(1), 0, name="from a joined root")
        except bps.BytepsError as error:
            assert "joined" in str(error), error  # noqa: PT017
        else:
            raise AssertionError("no error")
    bps.join()
