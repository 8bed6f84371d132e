"""Collectives that torch.compile keeps whole: `torch.ops.byteps.*`, beside those of `compiled`.

In a function under torch.compile `bps.allreduce`, `broadcast`, `allgather`, `reducescatter` and
`alltoall` become these. They block, and are differentiable once. A process set is its number.

Each also returns a ticket: what its gradient must know and only the run can tell. The first element
is the number of a call without a name; the same graph may run again before its backward does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from byteps.common.operations.call import Call
from byteps.common.operations.calls import broadcast_call, gather_call, reduce_call, scatter_call
from byteps.common.operations.reduction import Average, ReduceOp, Sum
from byteps.common.operations.splits import rows_of, sent_rows
from byteps.common.session import default
from byteps.common.session.names import scope_of, unnamed, unnamed_number
from byteps.common.session.pending import Handle
from byteps.common.session.process_sets import registered_number
from byteps.common.types import Operation
from byteps.torch.allgather import gather_gradient, start_gather
from byteps.torch.alltoall import alltoall_call, alltoall_gradient, start_alltoall
from byteps.torch.broadcast import copy_gradient
from byteps.torch.compile_guard import HAS_OPERATIONS
from byteps.torch.compiled.push_pull import ANY_DEVICE, LIBRARY
from byteps.torch.minmax import gradient
from byteps.torch.reducescatter import scatter_gradient, start_scatter
from byteps.torch.submit import exchange, finished
from byteps.torch.summing import combined


def _ticket(handle: Handle[Any], name: str | None, *more: int) -> Tensor:
    number = 0 if name is not None else unnamed_number(handle.name)
    return torch.tensor([number, *more], dtype=torch.int64, device="cpu")


def _backward_name(ticket: Tensor, name: str | None, process_set: int) -> str:
    """Return the name of the call that computes a gradient: that of Call.backward."""
    if name is None:
        number = registered_number(default.process_set_of(process_set)) or 0
        name = unnamed(scope_of(number), int(ticket[0]))
    return f"{name}.backward"


def _fake_ticket(numbers: int = 1) -> Tensor:
    return torch.empty(numbers, dtype=torch.int64, device="cpu")


def _allreduce(
    tensor: Tensor,
    name: str | None = None,
    op: str = "AVERAGE",
    before: float = 1.0,
    after: float = 1.0,
    process_set: int | None = 0,
) -> tuple[Tensor, Tensor]:
    ranks = default.process_set_of(process_set)
    handle = exchange(reduce_call(ReduceOp[op], name, before, after, ranks), tensor.detach(), None)
    return finished(handle), _ticket(handle, name)


def _allreduce_gradient(
    incoming: Tensor,
    ticket: Tensor,
    shape: Sequence[int],
    tensor: Tensor | None,
    name: str | None,
    op: str,
    before: float,
    after: float,
    process_set: int,
) -> Tensor:
    ranks = default.process_set_of(process_set)
    name = _backward_name(ticket, name, process_set)
    call = reduce_call(ReduceOp[op], name, before, after, ranks)
    if tensor is None:
        return combined(incoming.detach(), call)
    return gradient(call, call.operation, tensor.detach(), incoming.detach())


def _broadcast(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: int | None = 0
) -> tuple[Tensor, Tensor]:
    call = broadcast_call(root_rank, name, default.process_set_of(process_set))
    handle = exchange(call, tensor.detach(), None)
    return finished(handle), _ticket(handle, name)


def _fake_same_shape(tensor: Tensor, *options: object, **more: object) -> tuple[Tensor, Tensor]:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format), _fake_ticket()


def _broadcast_gradient(
    incoming: Tensor,
    ticket: Tensor,
    shape: Sequence[int],
    tensor: None,
    root_rank: int,
    name: str | None,
    process_set: int,
) -> Tensor:
    name = _backward_name(ticket, name, process_set)
    call = Call(Operation.AVERAGE, name, process_set=default.process_set_of(process_set))
    return copy_gradient(call, incoming.detach(), root_rank)


# The ticket says how many rows are before this rank's.
def _allgather(
    tensor: Tensor, name: str | None = None, process_set: int | None = 0
) -> tuple[Tensor, Tensor]:
    ranks = default.process_set_of(process_set)
    handle = start_gather(gather_call(name, ranks), tensor.detach(), lambda *result: result)
    received: Any = default.pending().synchronize(handle)
    joined, counts, _ = received
    return joined.to(tensor.device), _ticket(handle, name, sum(counts[: ranks.rank()]))


def _fake_allgather(tensor: Tensor, *options: object, **more: object) -> tuple[Tensor, Tensor]:
    rows = torch.library.get_ctx().new_dynamic_size()
    return tensor.new_empty((rows, *tensor.shape[1:])), _fake_ticket(2)


def _allgather_gradient(
    incoming: Tensor,
    ticket: Tensor,
    shape: Sequence[int],
    tensor: None,
    name: str | None,
    process_set: int,
) -> Tensor:
    name = _backward_name(ticket, name, process_set)
    call = Call(Operation.AVERAGE, name, process_set=default.process_set_of(process_set))
    return gather_gradient(call, incoming.detach(), int(ticket[1]), shape).clone()


# The ticket says of each rank whether it is in the result.
def _reducescatter(
    tensor: Tensor,
    place: int,
    count: int,
    name: str | None = None,
    op: str = "AVERAGE",
    before: float = 1.0,
    after: float = 1.0,
    process_set: int | None = 0,
) -> tuple[Tensor, Tensor]:
    ranks = default.process_set_of(process_set)
    handle = start_scatter(scatter_call(ReduceOp[op], name, ranks, before, after), tensor.detach())
    result, members = finished(handle), handle.members
    return result, _ticket(handle, name, *[int(rank in members) for rank in ranks.ranks])


def _fake_reducescatter(
    tensor: Tensor, place: int, count: int, *options: object, **more: object
) -> tuple[Tensor, Tensor]:
    rows = rows_of(place, count, tensor.shape[0])
    return tensor.new_empty((rows, *tensor.shape[1:])), _fake_ticket(1 + count)


def _reducescatter_gradient(
    incoming: Tensor,
    ticket: Tensor,
    shape: Sequence[int],
    tensor: Tensor | None,
    name: str | None,
    op: str,
    before: float,
    after: float,
    process_set: int,
) -> Tensor:
    ranks = default.process_set_of(process_set)
    name = _backward_name(ticket, name, process_set)
    call = scatter_call(ReduceOp[op], name, ranks, before, after)
    receipt = [rank for rank, is_in in zip(ranks.ranks, ticket[1:].tolist(), strict=True) if is_in]
    values = None if tensor is None else tensor.detach()
    return scatter_gradient(call, values, incoming.detach(), shape[0], receipt)


# The ticket says how many rows have come from each rank, then how many went to each.
def _alltoall(
    tensor: Tensor,
    count: int,
    splits: Tensor | None,
    name: str | None = None,
    process_set: int | None = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    call = alltoall_call(tensor, splits, name, default.process_set_of(process_set))
    handle = start_alltoall(call, tensor.detach())
    rows, counts = default.pending().synchronize(handle)
    sent = sent_rows(call, tensor.shape[0])
    return rows, counts, _ticket(handle, name, *counts.tolist(), *sent)


def _fake_alltoall(
    tensor: Tensor, count: int, *options: object, **more: object
) -> tuple[Tensor, Tensor, Tensor]:
    rows = torch.library.get_ctx().new_dynamic_size()
    counts = tensor.new_empty(count, dtype=torch.int32)
    return tensor.new_empty((rows, *tensor.shape[1:])), counts, _fake_ticket(1 + 2 * count)


def _alltoall_gradient(
    incoming: Tensor,
    ticket: Tensor,
    shape: Sequence[int],
    tensor: None,
    name: str | None,
    process_set: int,
) -> Tensor:
    numbers = ticket[1:].tolist()
    received, sent = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
    name = _backward_name(ticket, name, process_set)
    ranks = default.process_set_of(process_set)
    call = Call(Operation.ALLTOALL, name, process_set=ranks, splits=received)
    return alltoall_gradient(call, incoming.detach(), sent)


def _fake_gradient(incoming: Tensor, ticket: Tensor, shape: Sequence[int], *more: object) -> Tensor:
    return incoming.new_empty(shape)


def _register(
    name: str,
    shaping: list[str],
    options: list[str],
    functions: tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]],
    outputs: int = 2,
) -> None:
    """Register a collective and its gradient, which gets the `options` too."""
    forward, fake, backward = functions
    arguments = ", ".join(["Tensor tensor", *shaping, *options])
    LIBRARY.define(f"{name}({arguments}) -> ({', '.join(['Tensor'] * outputs)})")
    required = [option.partition("=")[0] for option in options]
    arguments = ", ".join(
        ["Tensor incoming", "Tensor ticket", "SymInt[] shape", "Tensor? tensor", *required]
    )
    LIBRARY.define(f"{name}_gradient({arguments}) -> Tensor")
    LIBRARY.impl(name, forward, ANY_DEVICE)
    LIBRARY.impl(f"{name}_gradient", backward, ANY_DEVICE)
    # Kept whether this rank uses the result or not: the others wait for it.
    torch.fx.node.has_side_effect(getattr(torch.ops.byteps, name).default)
    torch.library.register_fake(f"byteps::{name}", fake, lib=LIBRARY)
    torch.library.register_fake(f"byteps::{name}_gradient", _fake_gradient, lib=LIBRARY)

    def keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        tensor = inputs[0]
        ctx.shape = tensor.shape
        ctx.options = inputs[1 + len(shaping) :]
        # Only what is not linear needs values.
        reduction = dict(zip(required, ctx.options, strict=True)).get("str op")
        values = reduction is not None and ReduceOp[reduction] not in (Average, Sum)
        ctx.save_for_backward(tensor if values else None, output[-1])

    def differentiate(ctx: Any, incoming: Tensor, *_: Any) -> tuple[Any, ...]:
        tensor, ticket = ctx.saved_tensors
        operation = getattr(torch.ops.byteps, f"{name}_gradient")
        result = operation(incoming, ticket, ctx.shape, tensor, *ctx.options)
        return result, *[None] * (len(shaping) + len(options))

    torch.library.register_autograd(
        f"byteps::{name}", differentiate, setup_context=keep, lib=LIBRARY
    )


def register() -> None:
    """Register all of them, once, where this torch can take them."""
    if not HAS_OPERATIONS:
        return
    name, process_set = "str? name=None", "int? process_set=0"
    plain = [name, process_set]
    reduced = [name, "str op='AVERAGE'", "float before=1.0", "float after=1.0", process_set]
    _register("allreduce", [], reduced, (_allreduce, _fake_same_shape, _allreduce_gradient))
    _register(
        "broadcast",
        [],
        ["int root_rank", *plain],
        (_broadcast, _fake_same_shape, _broadcast_gradient),
    )
    _register("allgather", [], plain, (_allgather, _fake_allgather, _allgather_gradient))
    # A result whose shape is not the same on all ranks: it must not be taken from another's cache
    # of compiled graphs, so this rank's place and the number of ranks are seen in the graph.
    _register(
        "reducescatter",
        ["int place", "int count"],
        reduced,
        (_reducescatter, _fake_reducescatter, _reducescatter_gradient),
    )
    _register(
        "alltoall",
        ["int count", "Tensor? splits"],
        plain,
        (_alltoall, _fake_alltoall, _alltoall_gradient),
        outputs=3,
    )
