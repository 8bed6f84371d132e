"""The reducescatter family: every rank gets some rows of the combination of all ranks' tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from byteps.common.operations.call import LINEAR, Call, divisor, start
from byteps.common.operations.calls import scatter_call
from byteps.common.operations.groups import Buffer, places_by_kind, start_group
from byteps.common.operations.reduction import Average, ReduceOp
from byteps.common.operations.splits import rows_of
from byteps.common.session.flight import Flight
from byteps.common.session.pending import Handle
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation
from byteps.torch.allgather import gathered, with_gaps
from byteps.torch.compile_guard import is_compiling
from byteps.torch.compression import Compression, Compressor
from byteps.torch.devices import place_of
from byteps.torch.memory import (
    check_one_device,
    check_scalable,
    data_type,
    describe_tensors,
    new_memory,
    reached_memory,
    scaled,
    type_of_rows,
)
from byteps.torch.minmax import gradient_of_total
from byteps.torch.submit import apply, finished, finished_list

Tensors = Sequence[torch.Tensor]


def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[torch.Tensor]:
    """Start to combine `tensor` over all ranks, each of which gets some rows; return a handle.

    Example::

        mine = bps.synchronize(bps.reducescatter_async(tensor, name="rows", op=bps.Sum))
    """
    call = scatter_call(op, name, process_set, prescale_factor, postscale_factor)
    return start_scatter(call, tensor)


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: Compressor | type[Compressor] = Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Return this rank's rows of the combination of all ranks' tensors.

    Rows are dealt in the order of ranks, as evenly as possible: the first ranks get one more if
    they must. The gradient is that of an allreduce of which only these rows are used: of a sum,
    the ranks' gradients joined; of an average, that divided by their number. Rows of a rank that
    was lost have zeros.

    Example::

        mine = bps.reducescatter(tensor, name="rows", op=bps.Sum)
    """
    compressed, context = compression.compress(tensor)
    factors = (float(prescale_factor), float(postscale_factor))
    if is_compiling():  # byteps.torch.compiled.collectives
        # The result's shape is this rank's: what it depends on must be seen in the graph.
        place = (process_set.rank(), process_set.size())
        options = (name, op.name, *factors, process_set.process_set_id)
        result, _ = torch.ops.byteps.reducescatter(compressed, *place, *options)
    else:
        result = apply(_Reducescatter, compressed, scatter_call(op, name, process_set, *factors))
    return compression.decompress(result, context)


def grouped_reducescatter_async(
    tensors: Tensors,
    name: str | None = None,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[list[torch.Tensor]]:
    """Start the reducescatter of several tensors, all or none; return one handle.

    Example::

        parts = bps.synchronize(bps.grouped_reducescatter_async(tensors, name="parts"))
    """
    call = scatter_call(op, name, process_set, prescale_factor, postscale_factor)
    return _start_scatter_group(call, tensors)


def grouped_reducescatter(
    tensors: Tensors,
    name: str | None = None,
    compression: Compressor | type[Compressor] = Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """Return this rank's rows of the combinations of several tensors, all or none.

    Example::

        parts = bps.grouped_reducescatter([weights, biases], name="parts")
    """
    call = scatter_call(op, name, process_set, prescale_factor, postscale_factor)
    packed = [compression.compress(tensor) for tensor in tensors]
    outputs = apply(_GroupedReducescatter, call, *[tensor for tensor, _ in packed])
    pairs = zip(outputs, packed, strict=True)
    return [compression.decompress(output, context) for output, (_, context) in pairs]


def start_scatter(call: Call, tensor: torch.Tensor) -> Handle[torch.Tensor]:
    """Start a reducescatter."""
    dtype = type_of_rows(tensor)
    check_scalable(tensor.dtype, (call.prescale, call.postscale))
    source = reached_memory(tensor).detach()
    if call.prescale != 1.0:
        source = scaled(source, call.prescale)
    rows = rows_of(call.process_set.rank(), call.process_set.size(), tensor.shape[0])
    target = new_memory((rows, *tensor.shape[1:]), tensor.dtype, source.device)
    device, places = tensor.device, (source.data_ptr(), target.data_ptr())

    def finish(_: Flight) -> torch.Tensor:
        result = target if call.postscale == 1.0 else scaled(target, call.postscale)
        return result.to(device)

    keep, on = (source, target), place_of(source)
    return start(call, device.type, dtype, tensor.shape, *places, finish, keep, on)


def scatter_gradient(
    call: Call,
    tensor: torch.Tensor | None,
    incoming: torch.Tensor,
    rows: int,
    receipt: Sequence[int],
) -> torch.Tensor:
    """Return the gradient of this rank's tensor, of which only what is not linear needs values.

    It had so many rows, and the result of forward the contributions of the ranks in `receipt`.
    """
    back = replace(call, operation=Operation.ALLGATHER, prescale=1.0, postscale=1.0)
    joined, counts = gathered(incoming, back, Operation.SUM)
    size = call.process_set.size()
    total = with_gaps(joined, counts, [rows_of(place, size, rows) for place in range(size)])
    if tensor is not None:
        return gradient_of_total(call, call.combine, tensor, total)
    factor = call.prescale * call.postscale
    if call.combine is Operation.AVERAGE:
        factor /= divisor(call.process_set, receipt)
    return total if factor == 1.0 else total * factor


class _Reducescatter(torch.autograd.Function):
    """reducescatter as autograd sees it."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, call: Call) -> torch.Tensor:
        handle = start_scatter(call, tensor)
        ctx.call = call.backward(handle)
        ctx.rows = tensor.shape[0]
        if call.combine not in LINEAR:
            ctx.save_for_backward(tensor)
        result = finished(handle)
        ctx.receipt = handle.members
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        # What saves nothing may be gone through again, as torch's own linear functions.
        tensor = None if ctx.call.combine in LINEAR else ctx.saved_tensors[0]
        gradient = scatter_gradient(ctx.call, tensor, gradients[0], ctx.rows, ctx.receipt)
        return gradient, None


class _GroupedReducescatter(torch.autograd.Function):
    """grouped_reducescatter as autograd sees it: the gradients are those of single ones."""

    @staticmethod
    def forward(ctx: Any, call: Call, *tensors: torch.Tensor) -> Any:
        handle = _start_scatter_group(call, tensors)
        ctx.call = call.backward(handle)
        ctx.has = [tensor.is_floating_point() for tensor in tensors]
        ctx.rows = [tensor.shape[0] for tensor in tensors]
        if call.combine not in LINEAR:
            ctx.save_for_backward(*tensors)
        results = finished_list(handle)
        ctx.receipt = handle.members
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        found: list[torch.Tensor | None] = [None]
        is_linear = ctx.call.combine in LINEAR
        tensors = [None] * len(gradients) if is_linear else ctx.saved_tensors
        for i, (tensor, incoming) in enumerate(zip(tensors, gradients, strict=True)):
            if not ctx.has[i]:
                found.append(None)
                continue
            call = replace(ctx.call, name=f"{ctx.call.name}.{i}")
            found.append(scatter_gradient(call, tensor, incoming, ctx.rows[i], ctx.receipt))
        return tuple(found)


def _start_scatter_group(call: Call, tensors: Tensors) -> Handle[list[torch.Tensor]]:
    device = check_one_device(tensors)
    for tensor in tensors:
        type_of_rows(tensor)
        check_scalable(tensor.dtype, (call.prescale, call.postscale))
    call = replace(call, detail=describe_tensors(tensors))
    places = list(places_by_kind(tensor.dtype for tensor in tensors).values()) or [[]]
    packs = [_ScatterPack([tensors[i] for i in group], call) for group in places]

    def finish(_: Flight) -> list[torch.Tensor]:
        results: list[Any] = [None] * len(tensors)
        for group, pack in zip(places, packs, strict=True):
            for index, part in zip(group, pack.parts(), strict=True):
                results[index] = part.to(device)
        return results

    return start_group(packs, call, device.type, finish)


class _ScatterPack:
    """Tensors of one type: for each rank its rows of all of them, filled up to equal lengths."""

    def __init__(self, tensors: Tensors, call: Call) -> None:
        count, place = call.process_set.size(), call.process_set.rank()
        self._postscale = call.postscale
        shares = [
            reached_memory(tensor).detach().split(
                [rows_of(rank, count, tensor.shape[0]) for rank in range(count)]
            )
            for tensor in tensors
        ]  # fmt: skip
        ranks = [
            torch.cat([share[rank].reshape(-1) for share in shares])
            if shares
            else new_memory((0,), torch.float32)
            for rank in range(count)
        ]
        packed = torch.nn.utils.rnn.pad_sequence(ranks, batch_first=True)
        self._source = packed if call.prescale == 1.0 else scaled(packed, call.prescale)
        self._target = new_memory(packed.shape[1:], packed.dtype, packed.device)
        self._shapes = [share[place].shape for share in shares]

    def call(self, call: Call) -> Call:
        """Return the call of the operation."""
        return call

    def buffer(self) -> Buffer:
        """Return the buffer, of which each rank gets a row."""
        source, target = self._source, self._target
        places = (source.data_ptr(), target.data_ptr())
        return Buffer(data_type(source), source.shape, *places, place_of(source))

    def parts(self) -> list[torch.Tensor]:
        """Return this rank's rows of each tensor."""
        target = self._target
        flat = target if self._postscale == 1.0 else scaled(target, self._postscale)
        counts = [shape.numel() for shape in self._shapes]
        pieces = flat[: sum(counts)].split(counts)
        return [p.reshape(s).clone() for p, s in zip(pieces, self._shapes, strict=True)]
