"""Process sets: some ranks among themselves."""

from __future__ import annotations

from functools import partial

import torch
from checks_mismatch import expect

import byteps.torch as bps


def check_everybody(rank: int, size: int) -> None:
    everybody = bps.global_process_set
    assert everybody.process_set_id == 0
    assert everybody.ranks == list(range(size))
    assert (everybody.rank(), everybody.size(), everybody.included()) == (rank, size, True)
    assert not bps.remove_process_set(everybody)
    expect(ValueError, partial(bps.add_process_set, range(size)), "same ranks")


def check_two_halves(rank: int, size: int) -> None:
    if size < 2:
        return
    halves = [
        bps.add_process_set(range(0, size, 2)),
        bps.add_process_set([*range(1, size, 2)][::-1]),
    ]
    mine, other = halves if rank % 2 == 0 else halves[::-1]
    assert mine.included()
    assert not other.included()
    ranks, place, count = mine.ranks, mine.rank(), mine.size()
    assert ranks[place] == rank
    # The same names in both at the same time.
    total = bps.allreduce(torch.tensor([rank]), name="half", op=bps.Sum, process_set=mine)
    assert total.item() == sum(ranks)
    mean = bps.allreduce(torch.tensor([float(rank)]), process_set=mine)
    assert mean.item() == sum(ranks) / count
    pair = bps.grouped_allreduce([torch.ones(2), torch.ones(1).int()], op=bps.Sum, process_set=mine)
    assert [t.tolist() for t in pair] == [[count] * 2, [count]]
    assert bps.allgather(torch.full((place, 1), rank), process_set=mine).flatten().tolist() == [
        r for i, r in enumerate(ranks) for _ in range(i)
    ]
    root = ranks[-1]
    assert bps.broadcast(torch.tensor([rank]), root, process_set=mine).item() == root
    assert bps.broadcast_object(rank, root, process_set=mine) == root
    assert bps.allgather_object(rank, process_set=mine) == ranks
    bps.barrier(process_set=mine)
    rows = bps.reducescatter(torch.ones(count + 1, 2), op=bps.Sum, process_set=mine)
    assert rows.tolist() == [[count, count]] * (2 if place == 0 else 1)
    assert bps.alltoall(torch.arange(count) + 10 * rank, process_set=mine).tolist() == [
        10 * r + place for r in ranks
    ]
    sparse = torch.sparse_coo_tensor([[rank]], torch.ones(1), (size,), check_invariants=False)
    combined = bps.sparse_allreduce_async(sparse, op=bps.Sum, process_set=mine)()
    assert combined.to_dense().tolist() == [float(r in ranks) for r in range(size)]
    expect(
        bps.InvalidArgumentError, partial(bps.allreduce, torch.ones(1), process_set=other), "not in"
    )
    wrong = partial(bps.broadcast, torch.ones(1), other.ranks[0], process_set=mine)
    expect(bps.InvalidArgumentError, wrong, "it is not in the process set")
    train(mine, rank)
    for half in halves:
        assert bps.remove_process_set(half)
        assert half.process_set_id is None
        assert not bps.remove_process_set(half)
    expect(ValueError, partial(bps.allreduce, torch.ones(1), process_set=mine), "not registered")


def train(mine: bps.ProcessSet, rank: int) -> None:
    """Each half trains a model of its own."""
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = bps.DistributedOptimizer(
        torch.optim.SGD([weight], lr=1.0), [("half weight", weight)], process_set=mine
    )
    (weight * rank).sum().backward()
    optimizer.step()
    assert weight.item() == -sum(mine.ranks) / mine.size()


def check_gradients(rank: int, size: int) -> None:
    if size < 3:
        return
    pair = bps.add_process_set([0, size - 1])
    if pair.included():
        for call in (
            partial(bps.allreduce, op=bps.Sum),
            bps.allgather,
            partial(bps.broadcast, root_rank=size - 1),
            partial(bps.reducescatter, op=bps.Sum),
            bps.alltoall,
        ):
            tensor = torch.ones(2, requires_grad=True)
            call(tensor, process_set=pair).sum().backward()
            assert tensor.grad is not None
    assert bps.remove_process_set(pair)


def check_bad_sets(rank: int, size: int) -> None:
    expect(bps.InvalidArgumentError, partial(bps.add_process_set, [size]), f"0 to {size - 1}")
    expect(bps.InvalidArgumentError, partial(bps.add_process_set, []), "needs ranks")
    expect(ValueError, partial(bps.add_process_set, [0, 0]), "twice")
    if size > 1:
        expect(bps.MismatchError, partial(bps.add_process_set, [rank % 2]), "add_process_set")
        only = bps.add_process_set([0])
        expect(ValueError, partial(bps.add_process_set, [0]), "same ranks")
        assert bps.remove_process_set(only)


def check_ids_are_given_again(rank: int, size: int) -> None:
    """What ranks called under an id before, and how often, is forgotten with the set."""
    if size < 3:
        return
    for ranks in ([0, 1], [1, 2], [0, 1]):
        some = bps.add_process_set(ranks)
        assert some.process_set_id == 1
        if some.included():
            for _ in range(2):
                total = bps.allreduce(torch.tensor([rank]), op=bps.Sum, process_set=some)
                assert total.item() == sum(ranks)
            train(some, rank)
        assert bps.remove_process_set(some)
    again = bps.ProcessSet([0, 1])
    bps.init(process_sets=[again])
    assert again.process_set_id == 1
    assert bps.remove_process_set(again)
