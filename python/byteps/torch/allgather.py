"""The allgather family: every rank gets all ranks' tensors, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from byteps.common.operations.byte_rows import bytes_at
from byteps.common.operations.call import Call, start
from byteps.common.operations.calls import gather_call
from byteps.common.operations.part_frames import heads, parts_of
from byteps.common.session import default
from byteps.common.session.flight import Flight
from byteps.common.session.pending import Handle
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation
from byteps.torch.compile_guard import is_compiling
from byteps.torch.devices import place_of
from byteps.torch.memory import (
    as_bytes,
    check_one_device,
    data_type,
    new_memory,
    reached_memory,
)
from byteps.torch.submit import apply
from byteps.torch.summing import combined

_NOTHING = new_memory((0,), torch.uint8)


def allgather_async(
    tensor: torch.Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[torch.Tensor]:
    """Start to join the tensors of all ranks along the first dimension; return a handle.

    Example::

        rows = bps.synchronize(bps.allgather_async(tensor, name="rows"))
    """
    return start_gather(gather_call(name, process_set), tensor)


def allgather(
    tensor: torch.Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Return the tensors of all ranks, joined along the first dimension in rank order.

    The first dimension may differ between ranks; a tensor without dimensions counts as one row. The
    gradient is this rank's part of the average of all ranks' gradients.

    Example::

        predictions = bps.allgather(predictions, name="predictions")
    """
    joined: torch.Tensor
    if is_compiling():  # byteps.torch.compiled.collectives
        joined, _ = torch.ops.byteps.allgather(tensor, name, process_set.process_set_id)
    else:
        joined, _ = gathered(tensor, gather_call(name, process_set), Operation.AVERAGE)
    return joined


def gathered(tensor: torch.Tensor, call: Call, back: Operation) -> tuple[torch.Tensor, list[int]]:
    """Return the tensors of all ranks, joined, and the numbers of their rows; none for a rank that
    does not take part.

    The gradient is this rank's part of what `back` makes of all ranks' gradients.
    """
    joined, counts = apply(_Allgather, tensor, call, back)
    return joined, counts.tolist()


def with_gaps(rows: torch.Tensor, counts: list[int], wanted: list[int]) -> torch.Tensor:
    """Return what `counts` says that each rank has sent, with zeros in place of other numbers of
    rows than are wanted: those of a rank that was lost meanwhile."""
    if counts == wanted:
        return rows
    parts = [
        part if count == length else rows.new_zeros((length, *rows.shape[1:]))
        for part, count, length in zip(rows.split(counts), counts, wanted, strict=True)
    ]
    return torch.cat(parts)


def start_gather(
    call: Call,
    tensor: torch.Tensor,
    then: Callable[[torch.Tensor, list[int], list[int]], object] | None = None,
) -> Handle[Any]:
    """Start an allgather. `then` makes what `synchronize` returns: of the tensors of all ranks,
    joined, of the numbers of their rows, none for a rank that does not take part, and of who took
    part."""
    dtype = data_type(tensor)
    rows = tensor.reshape(1) if tensor.dim() == 0 else tensor
    memory = reached_memory(rows)
    device, shape = tensor.device, tuple(rows.shape)

    def finish(flight: Flight) -> object:
        joined = received_rows(flight, rows)
        if then is not None:
            return then(joined, flight.rows_of_ranks(), flight.members())
        return joined.to(device)

    source, on = memory.data_ptr(), place_of(memory)
    return start(call, device.type, dtype, shape, source, 0, finish, memory, on)


def received_rows(flight: Flight, like: torch.Tensor) -> torch.Tensor:
    """Return the rows that an allgather or alltoall has brought, in host memory; those of `like`
    have their shape and type."""
    size_bytes, count = flight.rows()
    received = new_memory((count, *like.shape[1:]), like.dtype)
    flight.copy_rows(received.data_ptr(), size_bytes)
    return received


class _Allgather(torch.autograd.Function):
    """allgather as autograd sees it."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, call: Call, back: Operation) -> Any:
        handle = start_gather(call, tensor, lambda *result: result)
        received: Any = default.pending().synchronize(handle)
        joined, counts, _ = received
        place = call.process_set.rank()
        ctx.call = replace(call.backward(handle), operation=back)
        ctx.shape = tensor.shape
        ctx.before = sum(counts[:place])
        numbers = torch.tensor(counts, device="cpu")
        ctx.mark_non_differentiable(numbers)
        return joined.to(tensor.device), numbers

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return gather_gradient(ctx.call, gradients[0], ctx.before, ctx.shape), None, None


def gather_gradient(
    call: Call, incoming: torch.Tensor, before: int, shape: Sequence[int]
) -> torch.Tensor:
    """Return the gradient of this rank's tensor, whose rows have so many others before them.

    `call` combines the gradients of all ranks.
    """
    count = shape[0] if len(shape) else 1
    return combined(incoming, call)[before : before + count].reshape(shape)


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[list[torch.Tensor]]:
    """Start to gather several tensors as one operation; return one handle.

    Example::

        handle = bps.grouped_allgather_async([inputs, labels], name="batch")
        inputs, labels = bps.synchronize(handle)
    """
    call = Call(Operation.ALLGATHER, name, process_set=process_set)
    return _start_grouped(call, tensors)


def grouped_allgather(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Return all ranks' rows of several tensors, all or none; see `allgather`.

    Example::

        inputs, labels = bps.grouped_allgather([inputs, labels], name="batch")
    """
    call = Call(Operation.ALLGATHER, name, process_set=process_set)
    return list(apply(_GroupedAllgather, call, *tensors))


class _GroupedAllgather(torch.autograd.Function):
    """grouped_allgather as autograd sees it: the gradients are those of single allgathers."""

    @staticmethod
    def forward(ctx: Any, call: Call, *tensors: torch.Tensor) -> Any:
        device = check_one_device(tensors)
        handle = start_gather_parts(call, tensors, lambda *result: result)
        received: Any = default.pending().synchronize(handle)
        parts, place, _ = received
        before = [sum(len(part) for part in ranks[:place]) for ranks in parts]
        ctx.shapes = [tensor.shape for tensor in tensors]
        ctx.own = [
            slice(begin, begin + len(ranks[place]))
            for begin, ranks in zip(before, parts, strict=True)
        ]
        ctx.call = replace(call.backward(handle), operation=Operation.AVERAGE)
        return tuple(torch.cat(ranks).to(device) for ranks in parts)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        found: list[torch.Tensor | None] = [None]
        for i, (gradient, own) in enumerate(zip(gradients, ctx.own, strict=True)):
            average = combined(gradient, replace(ctx.call, name=f"{ctx.call.name}.{i}"))
            found.append(average[own].reshape(ctx.shapes[i]))
        return tuple(found)


def _start_grouped(call: Call, tensors: Sequence[torch.Tensor]) -> Handle[list[torch.Tensor]]:
    device = check_one_device(tensors)
    return start_gather_parts(
        call, tensors, lambda parts, *_: [torch.cat(ranks).to(device) for ranks in parts]
    )


def start_gather_parts(
    call: Call,
    tensors: Sequence[torch.Tensor],
    then: Callable[[list[list[torch.Tensor]], int, list[int]], object],
) -> Handle[Any]:
    """Gather several tensors as one of bytes. `then` gets, for each tensor, those of all ranks that
    take part, which of these are this rank's, and who takes part.

    A rank sends how many rows its tensors have, then the rows.
    """
    check_one_device(tensors)
    rows = [tensor.reshape(1) if tensor.dim() == 0 else tensor for tensor in tensors]
    texts = [f"{data_type(t).name.lower()}{['*', *t.shape[1:]]}".replace("'", "") for t in rows]
    text = f"{len(rows)} tensors: {', '.join(texts)}"
    call = replace(call, detail=f"{call.detail}; {text}" if call.detail else text)
    head = bytearray(heads([t.shape[0] for t in rows]))
    pieces = [as_bytes(reached_memory(t)) for t in rows]
    on = pieces[0].device if pieces else _NOTHING.device
    if head:
        pieces.insert(0, torch.frombuffer(head, dtype=torch.uint8).to(on))
    sent = torch.cat([*pieces, _NOTHING.to(on)])
    place = call.process_set.rank()

    def finish(joined: torch.Tensor, counts: list[int], members: list[int]) -> object:
        before = sum(count > 0 for count in counts[:place])  # who is there sends heads at least
        return then(_take_apart(joined, rows), before, members)

    return start_gather(call, sent, finish)


def _take_apart(received: torch.Tensor, rows: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Return the tensors out of what the ranks have sent, rank after rank."""
    lengths = [_row_bytes(tensor) for tensor in rows]
    found = parts_of(bytes_at(received.data_ptr(), len(received)), lengths)
    return [
        [
            # A copy, so that it is aligned.
            received[part.begin : part.end].clone().view(tensor.dtype)
            .view(part.rows, *tensor.shape[1:])
            for part in parts
        ]
        for tensor, parts in zip(rows, found, strict=True)
    ]  # fmt: skip


def _row_bytes(tensor: torch.Tensor) -> int:
    return math.prod(tensor.shape[1:]) * tensor.element_size()
