"""Minima, maxima and products over ranks as autograd sees them."""

from __future__ import annotations

from typing import Any

import torch

from byteps.common.operations.call import Call
from byteps.common.types import Operation
from byteps.torch.allgather import gathered
from byteps.torch.submit import apply, exchange, finished
from byteps.torch.summing import combined


class _Nonlinear(torch.autograd.Function):
    """A minimum, a maximum or a product."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, call: Call) -> torch.Tensor:
        handle = exchange(call, tensor, None)
        ctx.call = call.backward(handle)
        ctx.save_for_backward(tensor)
        return finished(handle)

    @staticmethod
    def backward(ctx: Any, *incoming: torch.Tensor) -> Any:
        return gradient(ctx.call, ctx.call.operation, ctx.saved_tensors[0], incoming[0]), None


def combined_nonlinearly(tensor: torch.Tensor, call: Call) -> torch.Tensor:
    """Return a minimum, a maximum or a product over all ranks."""
    result: torch.Tensor = apply(_Nonlinear, tensor, call)
    return result


def gradient(
    call: Call, operation: Operation, tensor: torch.Tensor, incoming: torch.Tensor
) -> torch.Tensor:
    """Return the gradient of this rank's tensor: that of the sum of all ranks' losses.

    `incoming` is what this rank's result has.
    """
    total = combined(incoming, call.part("sum", Operation.SUM))
    return gradient_of_total(call, operation, tensor, total)


def gradient_of_total(
    call: Call, operation: Operation, tensor: torch.Tensor, total: torch.Tensor
) -> torch.Tensor:
    """Return the gradient of this rank's tensor, of what the results of all ranks have in sum.

    That of an extreme belongs to the ranks that have it, in equal shares.
    """
    rows, counts = gathered(tensor[None], call.part("rows", Operation.ALLGATHER), Operation.SUM)
    place = sum(counts[: call.process_set.rank()])
    if call.prescale != 1.0:
        rows = rows * call.prescale
    if operation is Operation.PRODUCT:
        share = torch.cat([rows[:place], rows[place + 1 :]]).prod(0)
    else:
        extreme = rows.amax(0) if operation is Operation.MAX else rows.amin(0)
        has = rows == extreme
        share = has[place].to(rows.dtype) / has.sum(0)
    return total * share * (call.prescale * call.postscale)
