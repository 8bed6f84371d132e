"""The allreduce of several tensors as one: packed into one buffer for each type of element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from byteps.common.operations.call import LINEAR, Call, is_cut, sum_of
from byteps.common.operations.calls import reduce_call
from byteps.common.operations.groups import Buffer, places_by_kind, start_group
from byteps.common.operations.reduction import ReduceOp, choose_op
from byteps.common.session.flight import Flight
from byteps.common.session.pending import Handle
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.torch.compression import Compression, Compressor
from byteps.torch.devices import place_of
from byteps.torch.memory import (
    check_one_device,
    check_scalable,
    check_writable,
    data_type,
    describe_tensors,
    is_plain,
    new_memory,
    reached_memory,
    scaled,
)
from byteps.torch.minmax import gradient
from byteps.torch.submit import apply, cut_average, finished_list

Tensors = Sequence[torch.Tensor]


def grouped_allreduce_async(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[list[torch.Tensor]]:
    """Start to combine several tensors into new ones, all or none; return one handle.

    Example::

        handle = bps.grouped_allreduce_async([loss, accuracy], name="metrics")
        loss, accuracy = bps.synchronize(handle)
    """
    call = reduce_call(choose_op(average, op), name, prescale_factor, postscale_factor, process_set)
    return start_grouped_allreduce(call, tensors, None)


def grouped_allreduce_async_(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[list[torch.Tensor]]:
    """Start to combine several tensors in place, all or none; return one handle.

    Example::

        bps.synchronize(bps.grouped_allreduce_async_(gradients, name="gradients"))
    """
    call = reduce_call(choose_op(average, op), name, prescale_factor, postscale_factor, process_set)
    return start_grouped_allreduce(call, tensors, list(tensors))


def grouped_allreduce_(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Combine several tensors in place, all or none, and return them.

    Example::

        bps.grouped_allreduce_([loss, accuracy], name="metrics")
    """
    call = reduce_call(choose_op(average, op), name, prescale_factor, postscale_factor, process_set)
    return finished_list(start_grouped_allreduce(call, tensors, list(tensors)))


def grouped_allreduce(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    compression: Compressor | type[Compressor] = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Return the combinations of several tensors, all or none; see `allreduce`.

    The tensors travel together, so many small ones cost as little as one. Another number of
    tensors, or other shapes, on some rank is a MismatchError on every rank.

    Example::

        loss, accuracy = bps.grouped_allreduce([loss, accuracy], name="metrics")
    """
    call = reduce_call(choose_op(average, op), name, prescale_factor, postscale_factor, process_set)
    packed = [compression.compress(tensor) for tensor in tensors]
    outputs = apply(_GroupedAllreduce, call, *[tensor for tensor, _ in packed])
    pairs = zip(outputs, packed, strict=True)
    return [compression.decompress(output, context) for output, (_, context) in pairs]


class _GroupedAllreduce(torch.autograd.Function):
    """grouped_allreduce as autograd sees it."""

    @staticmethod
    def forward(ctx: Any, call: Call, *tensors: torch.Tensor) -> Any:
        handle = start_grouped_allreduce(call, tensors, None)
        ctx.call = call.backward(handle)
        if call.operation not in LINEAR:
            ctx.save_for_backward(*tensors)
        return tuple(finished_list(handle))

    @staticmethod
    def backward(ctx: Any, *incoming: torch.Tensor) -> Any:
        call: Call = ctx.call
        if call.operation in LINEAR:
            return None, *apply(_GroupedAllreduce, call, *incoming)
        found: list[torch.Tensor | None] = []
        for i, (tensor, its) in enumerate(zip(ctx.saved_tensors, incoming, strict=True)):
            one = replace(call, name=f"{call.name}.{i}")
            has = tensor.is_floating_point()
            found.append(gradient(one, call.operation, tensor, its) if has else None)
        return None, *found


def start_grouped_allreduce(
    call: Call, tensors: Tensors, outputs: list[torch.Tensor] | None
) -> Handle[list[torch.Tensor]]:
    """Start one operation per type of element; without `outputs`, new tensors."""
    device = check_one_device(tensors)
    for tensor in tensors:
        check_scalable(tensor.dtype, (call.prescale, call.postscale))
    for output in outputs or ():
        if not is_plain(output):
            check_writable(output)
    if outputs is None:
        outputs = [new_memory(t.shape, t.dtype, device) for t in tensors]
    call = replace(call, detail=describe_tensors(tensors))
    # Without tensors, too: the others may have some, and must be told.
    places = list(places_by_kind(tensor.dtype for tensor in tensors).values()) or [[]]
    packs = [_Pack([tensors[i] for i in group], call) for group in places]
    results = outputs

    def finish(flight: Flight) -> list[torch.Tensor]:
        for number, (pack, group) in enumerate(zip(packs, places, strict=True)):
            pack.unpack([results[i] for i in group], flight.members_of(number))
        return results

    return start_group(packs, call, device.type, finish, list(tensors))


class _Pack:
    """Tensors of one type, one after the other in one buffer."""

    def __init__(self, tensors: Tensors, call: Call) -> None:
        self._shapes = [tensor.shape for tensor in tensors]
        self._counts = [tensor.numel() for tensor in tensors]
        parts = [reached_memory(tensor).detach().reshape(-1) for tensor in tensors]
        flat = torch.cat(parts) if parts else new_memory((0,), torch.float32)
        self._dtype = data_type(flat)
        self._is_cut = is_cut(call, self._dtype)
        self._flat = flat.to(torch.int64) if self._is_cut else flat
        if call.prescale != 1.0:
            self._flat = scaled(self._flat, call.prescale)
        self._call = call

    def call(self, call: Call) -> Call:
        """Return the call of the operation."""
        return sum_of(call, self._dtype) if self._is_cut else call

    def buffer(self) -> Buffer:
        """Return the buffer, which is combined in place."""
        flat = self._flat
        place = flat.data_ptr()
        return Buffer(data_type(flat), (flat.numel(),), place, place, place_of(flat))

    def unpack(self, outputs: Sequence[torch.Tensor], members: list[int]) -> None:
        """Copy the results, which have contributions of `members`, to where they belong."""
        if not outputs:
            return
        flat = self._flat
        if self._is_cut:
            flat = cut_average(self._call, flat, members)
        if self._call.postscale != 1.0:
            flat = scaled(flat, self._call.postscale)
        with torch.no_grad():
            pieces = flat.split(self._counts)
            views = [p.view(s) for p, s in zip(pieces, self._shapes, strict=True)]
            torch._foreach_copy_(list(outputs), views)
