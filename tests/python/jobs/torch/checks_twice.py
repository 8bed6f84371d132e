"""Gradients of gradients, against those of one process that has all ranks' tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from checks_gradients import combined_alone
from checks_scatter import part

import byteps.torch as bps

Tensor = torch.Tensor
FACTORS = {"prescale_factor": 0.5, "postscale_factor": 3.0}


class Shrink(torch.autograd.Function):
    """Divides gradients, as those of gathered and broadcast tensors are: averages, not sums."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient / len(gradient)


def combined(op: bps.ReduceOp, tensors: Tensor) -> Tensor:
    if op in (bps.Sum, bps.Average):
        return 1.5 * (tensors.sum(0) if op is bps.Sum else tensors.mean(0))
    return combined_alone(op, tensors * 0.5) * 3.0


def twice(tensor: Tensor, loss: Tensor, weight: Tensor) -> Tensor:
    """The gradient of a loss of the gradient."""
    (first,) = torch.autograd.grad(loss, tensor, create_graph=True)
    (second,) = torch.autograd.grad((first.pow(2) * weight).sum(), tensor)
    return second


def loss_of(output: Tensor, rank: int) -> Tensor:
    """A loss whose gradient depends on the output."""
    return (rank + 1) * output.pow(3).sum()


def compare(
    rank: int, size: int, own: Callable[[Tensor], Tensor], alone: Callable[[Tensor, int], Tensor]
) -> None:
    """`own` is this rank's output of its tensor, `alone` that of any rank of all their tensors."""
    generator = torch.Generator().manual_seed(7)
    shape = (size, 2 * size, 2)
    ranks = torch.randint(-2, 3, shape, generator=generator).double().requires_grad_()
    weights = torch.rand(shape, generator=generator, dtype=torch.float64)
    losses = [loss_of(alone(ranks, r), r) for r in range(size)]
    expected = twice(ranks, torch.stack(losses).sum(), weights)[rank]
    leaf = ranks[rank].detach().clone().requires_grad_()
    found = twice(leaf, loss_of(own(leaf), rank), weights[rank])
    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-9), (found, expected)


def check_reductions(rank: int, size: int) -> None:
    for op in (bps.Sum, bps.Average, bps.Min, bps.Max, bps.Product):
        options = {"name": f"twice {op}", "op": op, **FACTORS}

        def whole(ranks: Tensor, _: int, op: bps.ReduceOp = op) -> Tensor:
            return combined(op, ranks)

        def rows(ranks: Tensor, r: int, op: bps.ReduceOp = op) -> Tensor:
            return combined(op, ranks)[part(2 * size, r, size)]

        compare(rank, size, partial(bps.allreduce, **options), whole)
        compare(rank, size, partial(bps.reducescatter, **options), rows)
        for grouped, alone in (
            (bps.grouped_allreduce, whole),
            (bps.grouped_reducescatter, rows),
        ):
            call = partial(grouped, **options)
            compare(rank, size, lambda x, call=call: call([x * 0, x])[1], alone)
    compare(rank, size, lambda x: bps.push_pull(x, False, "twice"), lambda x, _: x.sum(0))


def check_copies(rank: int, size: int) -> None:
    root = size - 1
    compare(
        rank, size,
        lambda x: bps.broadcast(x, root, "twice copied"),
        lambda x, _: Shrink.apply(x)[root],
    )  # fmt: skip
    for gather in (
        lambda x: bps.allgather(x, "twice gathered"),
        lambda x: bps.grouped_allgather([x * 0, x], "twice gathered")[1],
    ):
        compare(rank, size, gather, lambda x, _: Shrink.apply(x).flatten(0, 1))
    compare(
        rank, size,
        lambda x: bps.alltoall(x, name="twice to all"),
        lambda x, r: x[:, 2 * r : 2 * r + 2].flatten(0, 1),
    )  # fmt: skip


def check_batch_norm(rank: int, size: int) -> None:
    """There is none of this; nobody shall get a wrong one."""
    if size == 1:
        return
    batch = torch.rand(4, 2, requires_grad=True)
    output = bps.SyncBatchNorm(2)(batch).pow(3).sum()
    (first,) = torch.autograd.grad(output, batch, create_graph=True)
    try:
        first.sum().backward()
    except RuntimeError as error:
        assert "once_differentiable" in str(error), error  # noqa: PT017
    else:
        raise AssertionError("no error")
