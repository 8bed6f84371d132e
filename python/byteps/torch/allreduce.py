"""The allreduce family: every rank gets the combination of all ranks' tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from byteps.common.pending import Handle
from byteps.common.process_sets import ProcessSet, global_process_set
from byteps.common.reduction import ReduceOp, choose_op, operation_of
from byteps.common.types import Operation
from byteps.torch.compression import Compression, Compressor
from byteps.torch.nonlinear import gradients
from byteps.torch.submit import Call, apply, exchange, finished
from byteps.torch.untraced import is_compiling

Tensors = Sequence[torch.Tensor]
LINEAR = (Operation.AVERAGE, Operation.SUM)


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Start to combine `tensor` over all ranks into a new tensor; return a handle.

    Example::

        handle = bps.allreduce_async(tensor, name="loss")
        mean = bps.synchronize(handle)
    """
    call = reduce_call(choose_op(average, op), name, prescale_factor, postscale_factor, process_set)
    return exchange(call, tensor, None)


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Start to combine `tensor` over all ranks in place; return a handle.

    Example::

        bps.synchronize(bps.allreduce_async_(tensor, name="loss", op=bps.Sum))
    """
    call = reduce_call(choose_op(average, op), name, prescale_factor, postscale_factor, process_set)
    return exchange(call, tensor, tensor)


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Combine `tensor` over all ranks in place and return it.

    Example::

        bps.allreduce_(tensor, name="loss")
    """
    call = reduce_call(choose_op(average, op), name, prescale_factor, postscale_factor, process_set)
    return finished(exchange(call, tensor, tensor))


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: Compressor | type[Compressor] = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Return the combination of all ranks' tensors: their average, or what `op` says.

    The tensor is multiplied by `prescale_factor` before and by `postscale_factor` after it is
    combined. Averages of integers are rounded down; scaled integers are cut toward zero. Gradients
    flow through: those of averages and sums are the same combination of the ranks' gradients; those
    of minima and maxima belong to the ranks that have them. `average` is deprecated: use `op`.

    Example::

        loss = bps.allreduce(loss, name="loss")
        count = bps.allreduce(torch.tensor(len(batch)), name="count", op=bps.Sum)
    """
    op = choose_op(average, op)
    compressed, context = compression.compress(tensor)
    if is_compiling() and name is not None and process_set is global_process_set:
        options = (name, op.name, float(prescale_factor), float(postscale_factor))
        combined = torch.ops.byteps.allreduce(compressed, *options)  # byteps.torch.compiled
    else:
        call = reduce_call(op, name, prescale_factor, postscale_factor, process_set)
        combined = apply(_Allreduce, compressed, call)
    return compression.decompress(combined, context)


def reduce_call(
    op: ReduceOp,
    name: str | None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Call:
    """Return the call of an allreduce."""
    return Call(
        operation_of(op),
        name,
        process_set=process_set,
        prescale=float(prescale_factor),
        postscale=float(postscale_factor),
    )


class _Allreduce(torch.autograd.Function):
    """allreduce as autograd sees it."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, call: Call) -> torch.Tensor:
        handle = exchange(call, tensor, None)
        ctx.call = call.backward(handle)
        output = finished(handle)
        if call.operation not in LINEAR:
            ctx.save_for_backward(tensor, output)
        return output

    @staticmethod
    def backward(ctx: Any, *incoming: torch.Tensor) -> Any:
        call: Call = ctx.call
        if call.operation in LINEAR:
            return finished(exchange(call, incoming[0], None)), None
        tensor, output = ctx.saved_tensors

        def combine(op: ReduceOp, tensors: Tensors, before: float, after: float) -> Tensors:
            # A sum is of the gradient and of something else: two rows.
            both = torch.stack(list(tensors))
            return finished(exchange(call.part(op, before, after), both, None)).unbind()

        factors = (call.prescale, call.postscale)
        op = ReduceOp(call.operation)
        return gradients(op, factors, [tensor], [output], incoming, combine)[0], None
