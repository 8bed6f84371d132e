"""Ranks whose lists of parameters differ are told both, and go on with something else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from checks_mismatch import expect

import byteps.torch as bps
from byteps.torch.cross_barrier import CrossBarrier
from byteps.torch.parallel import DistributedDataParallel


class Several(torch.nn.Module):
    """Parameters with some names."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        for name in names:
            self.register_parameter(name, torch.nn.Parameter(torch.ones(3)))

    def forward(self) -> torch.Tensor:
        return torch.stack([p.sum() for p in self.parameters()]).sum()


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def distributed(model: torch.nn.Module, **options: Any) -> None:
    optimizer = bps.DistributedOptimizer(sgd(model), model.named_parameters(), **options)
    model().backward()
    optimizer.step()


def crossing(model: torch.nn.Module) -> None:
    optimizer = CrossBarrier(model, sgd(model))
    model().backward()
    optimizer.step()
    optimizer.synchronize()


def parallel(model: torch.nn.Module) -> None:
    wrapped = DistributedDataParallel(model)
    wrapped().backward()


def copied(model: torch.nn.Module) -> None:
    bps.broadcast_parameters(model.state_dict(), 0)


def check_lists(rank: int, size: int) -> None:
    """One more parameter, another one, another order, on rank 0."""
    if size == 1:
        return
    ways: list[Callable[..., None]] = [distributed, partial(distributed, num_groups=1)]
    for i, train in enumerate([*ways, crossing, parallel, copied]):
        lists = ((["a"], ["a", "b"]), (["a", "b"], ["a", "c"]), (["a", "b"], ["b", "a"]))
        for j, (first, others) in enumerate(lists):
            if train in (parallel, copied) and sorted(first) == sorted(others):
                continue  # the order of names
            names = [f"list{i}{j}{name}" for name in (first if rank == 0 else others)]
            texts = (f"list{i}{j}{name}" for name in [*first, *others])
            expect(bps.MismatchError, partial(train, Several(names)), "rank 0 has", *texts)


def check_groups(rank: int, size: int) -> None:
    if size == 1:
        return
    train = partial(distributed, Several(["grouped1", "grouped2"]), num_groups=int(rank == 0))
    expect(bps.MismatchError, train, "grouped1 in Gradient.group", "grouped1, grouped2")


def check_parallel_frozen(rank: int, size: int) -> None:
    """The wrapped models are alike, but rank 0 trains less of its own."""
    if size == 1:
        return
    model = Several(["frozen1", "frozen2"])
    model.get_parameter("frozen2").requires_grad_(rank > 0)
    expect(bps.MismatchError, partial(parallel, model), "1 parameters", "2 parameters")


def check_roots(rank: int, size: int) -> None:
    if size == 1:
        return
    state = {f"rooted{i}": torch.ones(2) for i in range(3)}
    call = partial(bps.broadcast_parameters, state, int(rank == 0))
    expect(bps.MismatchError, call, "root 0; 3 tensors", "root 1; 3 tensors")
    bps.broadcast_parameters(state, 0)  # the names are free again


def check_optimizers(rank: int, size: int) -> None:
    """Whose state could not be loaded, or only by chance."""
    if size == 1:
        return
    one, other = Several(["state1", "state2"]), Several(["state1"])
    optimizers = (
        (sgd(one), sgd(other), "of 1 groups: 2 tensors", "of 1 groups: 1 tensors"),
        (sgd(other), torch.optim.SGD([torch.ones(4)], lr=0.1), "float32[3]", "float32[4]"),
        (
            sgd(one),
            torch.optim.SGD([{"params": [p]} for p in one.parameters()], lr=0.1),
            "of 2 groups",
        ),
        (sgd(one), torch.optim.Adam(one.parameters()), "SGD of", "Adam of"),
    )
    for first, others, *texts in optimizers:
        optimizer = first if rank == 0 else others
        expect(bps.MismatchError, partial(bps.broadcast_optimizer_state, optimizer, 0), *texts)
    bps.broadcast_optimizer_state(sgd(one), 0)


def check_shapes(rank: int, size: int) -> None:
    if size == 1:
        return
    state = {"shaped1": torch.ones(2 + (rank == 0)), "shaped2": torch.full((2,), float(rank))}
    expect(bps.MismatchError, partial(bps.broadcast_parameters, state, 0), "shaped1")
    assert state["shaped2"].tolist() == [0.0, 0.0]
    bps.broadcast_parameters({"shaped1": torch.ones(2), "shaped2": torch.ones(2)}, 0)


def check_many(rank: int, size: int) -> None:
    """More than a text of bounded length can tell."""
    ones = [torch.ones(i % 5, 1) for i in range(400)]
    for result in bps.grouped_allreduce(ones, name="many", op=bps.Sum):
        assert result.flatten().tolist() == [size] * len(result)
    if size > 1:
        ones[200] = torch.ones(6 if rank == 0 else 7, 1)
        expect(bps.MismatchError, partial(bps.grouped_allreduce, ones, name="many"), "400 tensors")
    distributed(Several([f"{'x' * 30}{i}" for i in range(100)]), num_groups=1)


def check_optimizers_of_some(rank: int, size: int) -> None:
    """Ranks that make optimizers among themselves before one with all."""
    if size < 3:
        return
    pair = bps.add_process_set([0, 1])
    if pair.included():
        distributed(Several(["same"]), process_set=pair)
    distributed(Several(["same"]))
    bps.remove_process_set(pair)
