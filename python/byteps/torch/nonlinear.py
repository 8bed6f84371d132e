"""Gradients of minima, maxima and products over ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from byteps.common.reduction import Product, ReduceOp, Sum
from byteps.torch.memory import scaled

Tensors = Sequence[torch.Tensor]
# Combines tensors over all ranks: operation, tensors, prescale and postscale factor.
Combine = Callable[[ReduceOp, Tensors, float, float], Tensors]


def gradients(
    op: ReduceOp,
    factors: tuple[float, float],
    tensors: Tensors,
    outputs: Tensors,
    incoming: Tensors,
    combine: Combine,
) -> list[torch.Tensor]:
    """Return the gradients of this rank's tensors: those of the sum of all ranks' losses.

    That of an extreme belongs to the ranks that have it, in equal shares.
    """
    if op is Product:
        return _of_products(factors, tensors, incoming, combine)
    return _of_extremes(factors, tensors, outputs, incoming, combine)


def _of_extremes(
    factors: tuple[float, float],
    tensors: Tensors,
    outputs: Tensors,
    incoming: Tensors,
    combine: Combine,
) -> list[torch.Tensor]:
    before, after = factors
    own = [_times(_times(tensor, before), after) for tensor in tensors]
    has = [(x == y).to(x.dtype) for x, y in zip(own, outputs, strict=True)]
    sums = combine(Sum, [*incoming, *has], 1.0, 1.0)
    totals, counts = sums[: len(has)], sums[len(has) :]
    return [
        total * (h / count.clamp(min=1.0)) * (before * after)
        for total, count, h in zip(totals, counts, has, strict=True)
    ]


def _of_products(
    factors: tuple[float, float], tensors: Tensors, incoming: Tensors, combine: Combine
) -> list[torch.Tensor]:
    # What all others have, also where this rank's element is zero.
    zeros = [(tensor == 0).to(tensor.dtype) for tensor in tensors]
    others = [x + zero for x, zero in zip(tensors, zeros, strict=True)]
    sums = combine(Sum, [*incoming, *zeros], 1.0, 1.0)
    totals, counts = sums[: len(zeros)], sums[len(zeros) :]
    products = combine(Product, others, *factors)
    return [
        total * (product / other) * (count == zero).to(total.dtype)
        for total, product, other, count, zero in zip(
            totals, products, others, counts, zeros, strict=True
        )
    ]


def _times(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    return tensor if factor == 1.0 else scaled(tensor, factor)
