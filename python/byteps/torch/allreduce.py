"""The allreduce family: every rank gets the combination of all ranks' tensors."""

from __future__ import annotations

import torch

from byteps.common.operations.call import LINEAR
from byteps.common.operations.calls import reduce_call
from byteps.common.operations.reduction import ReduceOp, choose_op
from byteps.common.session.pending import Handle
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.torch.compile_guard import is_compiling
from byteps.torch.compression import Compression, Compressor
from byteps.torch.minmax import combined_nonlinearly
from byteps.torch.submit import exchange, finished
from byteps.torch.summing import combined


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[torch.Tensor]:
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
) -> Handle[torch.Tensor]:
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
    combined. Averages of integers and scaled integers are cut toward zero (`push_pull` rounds
    averages down). Gradients flow through: those of averages and sums are the same combination of
    the ranks' gradients; those of minima and maxima belong to the ranks that have them. Gradients
    have gradients themselves.
    `average` is deprecated: use `op`.

    Example::

        loss = bps.allreduce(loss, name="loss")
        count = bps.allreduce(torch.tensor(len(batch)), name="count", op=bps.Sum)
    """
    op = choose_op(average, op)
    compressed, context = compression.compress(tensor)
    if is_compiling():  # byteps.torch.compiled.collectives
        factors = (float(prescale_factor), float(postscale_factor))
        options = (name, op.name, *factors, process_set.process_set_id)
        result, _ = torch.ops.byteps.allreduce(compressed, *options)
    else:
        call = reduce_call(op, name, prescale_factor, postscale_factor, process_set)
        combine = combined if call.operation in LINEAR else combined_nonlinearly
        result = combine(compressed, call)
    return compression.decompress(result, context)
