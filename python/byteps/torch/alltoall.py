"""alltoall: every rank gives some rows to each rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from byteps.common.errors import InvalidArgumentError
from byteps.common.operations.call import Call, start
from byteps.common.operations.splits import checked_splits, sent_rows
from byteps.common.session import default
from byteps.common.session.flight import Flight
from byteps.common.session.pending import Handle
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation
from byteps.torch.allgather import received_rows, with_gaps
from byteps.torch.compile_guard import is_compiling
from byteps.torch.devices import place_of
from byteps.torch.memory import data_type, reached_memory, type_of_rows
from byteps.torch.submit import apply


def alltoall_async(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[tuple[torch.Tensor, torch.Tensor]]:
    """Start to give each rank some rows of `tensor`; return a handle.

    With or without `splits`, the result is a pair: the rows, and the number of rows from each rank.

    Example::

        rows, counts = bps.synchronize(bps.alltoall_async(tensor, splits=[1, 3], name="rows"))
    """
    return start_alltoall(alltoall_call(tensor, splits, name, process_set), tensor)


def alltoall(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Give each rank some rows of `tensor`, and return those that came, in the order of ranks.

    `splits` says how many rows each rank gets; then the number of rows from each rank is returned
    as well. Without it all get equally many, and only the rows are returned. Gradients go back to
    where the rows came from; those of rows for a rank that was lost are zeros.

    Example::

        rows = bps.alltoall(tensor, name="rows")
        rows, counts = bps.alltoall(tensor, splits=torch.tensor([1, 3]), name="more rows")
    """
    if is_compiling():  # byteps.torch.compiled.collectives
        if splits is not None and not isinstance(splits, torch.Tensor):
            splits = torch.tensor(splits)
        shaping = (process_set.size(), splits)
        options = (name, process_set.process_set_id)
        received, counts, _ = torch.ops.byteps.alltoall(tensor, *shaping, *options)
    else:
        call = alltoall_call(tensor, splits, name, process_set)
        received, counts = apply(_Alltoall, tensor, call)
    return received if splits is None else (received, counts)


def alltoall_call(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None,
    name: str | None,
    process_set: ProcessSet,
) -> Call:
    """Return the call of an alltoall; raise for splits that are none."""
    type_of_rows(tensor)
    call = Call(Operation.ALLTOALL, name, process_set=process_set)
    if isinstance(splits, torch.Tensor):
        if splits.dim() != 1 or splits.is_floating_point():
            raise InvalidArgumentError("splits must be a list or a vector of integers.")
        splits = splits.tolist()
    call.splits = checked_splits(splits, process_set.size(), tensor.shape[0])
    return call


def start_alltoall(call: Call, tensor: torch.Tensor) -> Handle[tuple[torch.Tensor, torch.Tensor]]:
    """Start an alltoall; the result is the rows, and the number of rows from each rank."""
    dtype = data_type(tensor)
    memory = reached_memory(tensor).detach()
    device, shape, source = tensor.device, tensor.shape, memory.data_ptr()

    def finish(flight: Flight) -> tuple[torch.Tensor, torch.Tensor]:
        rows = received_rows(flight, tensor)
        counts = torch.tensor(flight.rows_of_ranks(), dtype=torch.int32)
        return rows.to(device), counts.to(device)

    return start(call, device.type, dtype, shape, source, 0, finish, memory, place_of(memory))


def alltoall_gradient(call: Call, incoming: torch.Tensor, sent: list[int]) -> torch.Tensor:
    """Return the gradient of a tensor of which each rank was sent so many rows: `call` brings them
    back."""
    rows, counts = apply(_Alltoall, incoming, call)
    return with_gaps(rows, counts.tolist(), sent)


class _Alltoall(torch.autograd.Function):
    """alltoall as autograd sees it."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, call: Call) -> Any:
        handle = start_alltoall(call, tensor)
        received = default.pending().synchronize(handle)
        ctx.sent = sent_rows(call, tensor.shape[0])
        ctx.call = call.backward(handle)
        ctx.call.splits = received[1].tolist()
        ctx.mark_non_differentiable(received[1])
        return received

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return alltoall_gradient(ctx.call, gradients[0], ctx.sent), None
