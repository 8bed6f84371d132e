"""Operations on torch tensors, each in a synchronous and an asynchronous form.

Names are the same on all ranks. A handle is a positive int; give each one to `synchronize` once.
`version` is accepted for programs written for the original and has no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch

from byteps.common import default
from byteps.common.errors import InvalidArgumentError
from byteps.common.session import Handle, Pending, Request, Session
from byteps.common.types import DataType, Operation
from byteps.torch.compression import Compression, Compressor
from byteps.torch.memory import check_tensor, host_memory


def push_pull_async(
    tensor: torch.Tensor,
    average: bool = True,
    name: str | None = None,
    version: int = 0,
    priority: int = 0,
) -> Handle:
    """Start to combine `tensor` over all ranks into a new tensor; return a handle."""
    output = torch.empty_like(tensor, requires_grad=False)
    return _push_pull(tensor, output, average, name, priority)


def push_pull_async_inplace(
    tensor: torch.Tensor,
    average: bool = True,
    name: str | None = None,
    version: int = 0,
    priority: int = 0,
) -> Handle:
    """Start to combine `tensor` over all ranks in place; return a handle."""
    return _push_pull(tensor, tensor, average, name, priority)


def push_pull_inplace(
    tensor: torch.Tensor,
    average: bool = True,
    name: str | None = None,
    version: int = 0,
    priority: int = 0,
) -> torch.Tensor:
    """Combine `tensor` over all ranks in place and return it."""
    return _finished(push_pull_async_inplace(tensor, average, name, version, priority))


def push_pull(
    tensor: torch.Tensor,
    average: bool = True,
    name: str | None = None,
    version: int = 0,
    priority: int = 0,
    compression: type[Compressor] = Compression.none,
) -> torch.Tensor:
    """Combine `tensor` over all ranks into a new tensor; gradients flow through.

    The gradient is the push_pull of the incoming gradient with the same `average`.
    """
    if name is None:
        raise AssertionError("push_pull needs a name that is the same on all ranks.")
    compressed, context = compression.compress(tensor)
    apply = cast(Any, _PushPull).apply
    summed: torch.Tensor = apply(compressed, average, name, version, priority)
    return compression.decompress(summed, context)


class _PushPull(torch.autograd.Function):
    """push_pull as autograd sees it."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, average: bool, name: str, *rest: int) -> Any:
        ctx.arguments = (average, f"{name}.backward", *rest)
        return _finished(push_pull_async(tensor, average, name, *rest))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        gradient = _finished(push_pull_async(gradients[0].contiguous(), *ctx.arguments))
        return gradient, None, None, None, None


def byteps_torch_set_num_grads(num_grads: int) -> int:
    """Set after how many submissions the count of the group starts again. Returns 0."""
    default.current().group.set_size(num_grads)
    return 0


def push_pull_group_sync_inplace(
    tensor: torch.Tensor,
    average: bool = True,
    name: str | None = None,
    version: int = 0,
    priority: int = 0,
) -> tuple[Handle, int]:
    """Start to combine `tensor` in place; return the handle and the place in the group, from 1."""
    handle = push_pull_async_inplace(tensor, average, name, version, priority)
    return handle, default.current().group.count()


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> Handle:
    """Start to copy the root's tensor, bit for bit, into a new tensor; return a handle."""
    output = torch.empty_like(tensor, requires_grad=False)
    return _broadcast(tensor, output, root_rank, name)


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> Handle:
    """Start to copy the root's tensor, bit for bit, into `tensor`; return a handle."""
    return _broadcast(tensor, tensor, root_rank, name)


def broadcast(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> torch.Tensor:
    """Return the root's tensor, bit for bit."""
    return _finished(broadcast_async(tensor, root_rank, name))


def broadcast_(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> torch.Tensor:
    """Overwrite `tensor` with the root's, bit for bit, and return it."""
    return _finished(broadcast_async_(tensor, root_rank, name))


def allgather_async(tensor: torch.Tensor, name: str | None = None) -> Handle:
    """Start to join the tensors of all ranks along the first dimension; return a handle.

    The first dimension may differ between ranks; a tensor without dimensions counts as one row.
    """
    session = default.current()
    rows = tensor.reshape(1) if tensor.dim() == 0 else tensor
    dtype = check_tensor(rows)
    memory = host_memory(rows)
    request = Request(
        name or session.auto_name("allgather"), Operation.ALLGATHER, dtype, tuple(rows.shape),
        memory.data_ptr(), 0,
    )  # fmt: skip
    native_handle = session.start(request)

    def finish() -> torch.Tensor:
        size_bytes, first_dimension, _ = session.result(native_handle)
        joined = torch.empty((first_dimension, *rows.shape[1:]), dtype=rows.dtype)
        session.copy_result(native_handle, joined.data_ptr(), size_bytes)
        return joined.to(tensor.device)

    return default.pending().add(Pending(session, native_handle, finish, (memory,)))


def allgather(tensor: torch.Tensor, name: str | None = None) -> torch.Tensor:
    """Return the tensors of all ranks, joined along the first dimension in rank order."""
    return _finished(allgather_async(tensor, name))


def barrier(name: str | None = None) -> None:
    """Block until every rank has called it."""
    session = default.current()
    request = Request(
        name or session.auto_name("barrier"), Operation.BARRIER, DataType.UINT8, (), 0, 0
    )
    handle = default.pending().add(Pending(session, session.start(request), lambda: None))
    default.pending().synchronize(handle)


def poll(handle: int) -> bool:
    """Return whether `synchronize(handle)` would not block."""
    return default.pending().poll(handle)


def members_of(handle: int) -> list[int]:
    """Return the ranks whose contributions are in every part of the result of a complete operation.

    None of them when it failed. An average was divided by their number. Handles of this module have
    them as `handle.members` too, which also works after `synchronize`.
    """
    return default.pending().members_of(handle)


def synchronize(handle: int) -> torch.Tensor | None:
    """Block until the operation is over; return its tensor, or raise why it failed.

    A handle that this process does not know gives None.
    """
    return cast("torch.Tensor | None", default.pending().synchronize(handle))


def _finished(handle: int) -> torch.Tensor:
    return cast(torch.Tensor, default.pending().synchronize(handle))


def _push_pull(
    tensor: torch.Tensor, output: torch.Tensor, average: bool, name: str | None, priority: int
) -> Handle:
    operation = Operation.AVERAGE if average else Operation.SUM
    return _start(default.current(), "push_pull", operation, tensor, output, name, 0, priority)


def _broadcast(
    tensor: torch.Tensor, output: torch.Tensor, root_rank: int, name: str | None
) -> Handle:
    session = default.current()
    if not 0 <= root_rank < session.size:
        raise InvalidArgumentError(
            f"root_rank is {root_rank}; the ranks are 0 to {session.size - 1}."
        )
    return _start(session, "broadcast", Operation.BROADCAST, tensor, output, name, root_rank, 0)


def _start(
    session: Session,
    kind: str,
    operation: Operation,
    tensor: torch.Tensor,
    output: torch.Tensor,
    name: str | None,
    root_rank: int,
    priority: int,
) -> Handle:
    dtype = check_tensor(tensor)
    source = host_memory(tensor)
    target, finish = _target_memory(output, source if output is tensor else None)
    request = Request(
        name or session.auto_name(kind), operation, dtype, tuple(tensor.shape),
        source.data_ptr(), target.data_ptr(), root_rank, priority,
    )  # fmt: skip
    native_handle = session.start(request)
    return default.pending().add(Pending(session, native_handle, finish, (tensor, source, target)))


def _target_memory(
    output: torch.Tensor, source: torch.Tensor | None
) -> tuple[torch.Tensor, Callable[[], torch.Tensor]]:
    """Return host memory for the result, and what brings it into `output` in the end."""
    if output.device.type == "cpu" and not output.is_neg():
        return output.detach(), lambda: output
    target = source if source is not None else torch.empty_like(output, device="cpu")

    def finish() -> torch.Tensor:
        with torch.no_grad():
            output.copy_(target)
        return output

    return target, finish
