"""Operations on torch tensors, each in a synchronous and an asynchronous form.

Names are the same on all ranks. A handle is a positive int; give each one to `synchronize` once.
`version` is accepted for programs written for the original and has no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import torch

from byteps.common.operations.barriers import barrier, join
from byteps.common.operations.calls import push_pull_call
from byteps.common.operations.objects import allgather_object, broadcast_object
from byteps.common.session import default
from byteps.common.session.pending import Handle, Result
from byteps.torch.allgather import (
    allgather,
    allgather_async,
    grouped_allgather,
    grouped_allgather_async,
)
from byteps.torch.allreduce import (
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
)
from byteps.torch.alltoall import alltoall, alltoall_async
from byteps.torch.broadcast import (
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
)
from byteps.torch.compile_guard import is_compiling
from byteps.torch.compression import Compression, Compressor
from byteps.torch.grouped_allreduce import (
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
)
from byteps.torch.reducescatter import (
    grouped_reducescatter,
    grouped_reducescatter_async,
    reducescatter,
    reducescatter_async,
)
from byteps.torch.sparse import SparseHandle, sparse_allreduce_async
from byteps.torch.submit import exchange, finished
from byteps.torch.summing import combined

__all__ = [
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "byteps_torch_set_num_grads",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "join",
    "members_of",
    "poll",
    "push_pull",
    "push_pull_async",
    "push_pull_async_inplace",
    "push_pull_group_sync_inplace",
    "push_pull_inplace",
    "reducescatter",
    "reducescatter_async",
    "sparse_allreduce_async",
    "synchronize",
]


def push_pull_async(
    tensor: torch.Tensor,
    average: bool = True,
    name: str | None = None,
    version: int = 0,
    priority: int = 0,
) -> Handle[torch.Tensor]:
    """Start to combine `tensor` over all ranks into a new tensor; return a handle.

    Example::

        mean = bps.synchronize(bps.push_pull_async(tensor, name="loss"))
    """
    return exchange(push_pull_call(average, name, priority), tensor, None)


def push_pull_async_inplace(
    tensor: torch.Tensor,
    average: bool = True,
    name: str | None = None,
    version: int = 0,
    priority: int = 0,
) -> Handle[torch.Tensor]:
    """Start to combine `tensor` over all ranks in place; return a handle.

    Example::

        handle = bps.push_pull_async_inplace(gradient, name="layer1.weight", priority=-1)
        bps.synchronize(handle)
    """
    return exchange(push_pull_call(average, name, priority), tensor, tensor)


def push_pull_inplace(
    tensor: torch.Tensor,
    average: bool = True,
    name: str | None = None,
    version: int = 0,
    priority: int = 0,
) -> torch.Tensor:
    """Combine `tensor` over all ranks in place and return it.

    Example::

        bps.push_pull_inplace(tensor, average=False, name="counts")
    """
    return finished(push_pull_async_inplace(tensor, average, name, version, priority))


def push_pull(
    tensor: torch.Tensor,
    average: bool = True,
    name: str | None = None,
    version: int = 0,
    priority: int = 0,
    compression: Compressor | type[Compressor] = Compression.none,
) -> torch.Tensor:
    """Combine `tensor` over all ranks into a new tensor; gradients flow through.

    The gradient is the push_pull of the incoming gradient with the same `average`.

    Example::

        mean = bps.push_pull(tensor, name="loss")
    """
    if name is None:
        raise AssertionError("push_pull needs a name that is the same on all ranks.")
    compressed, context = compression.compress(tensor)
    if is_compiling():  # byteps.torch.compiled.push_pull
        summed = torch.ops.byteps.push_pull(compressed, name, average, priority)
    else:
        summed = combined(compressed, push_pull_call(average, name, priority))
    return compression.decompress(summed, context)


def byteps_torch_set_num_grads(num_grads: int) -> int:
    """Set after how many submissions the count of the group starts again. Returns 0.

    Example::

        bps.byteps_torch_set_num_grads(len(list(model.parameters())))
    """
    default.current().group.set_size(num_grads)
    return 0


def push_pull_group_sync_inplace(
    tensor: torch.Tensor,
    average: bool = True,
    name: str | None = None,
    version: int = 0,
    priority: int = 0,
) -> tuple[Handle[torch.Tensor], int]:
    """Start to combine `tensor` in place; return the handle and the place in the group, from 1.

    Example::

        handle, place = bps.push_pull_group_sync_inplace(gradient, name="layer1.weight")
    """
    handle = push_pull_async_inplace(tensor, average, name, version, priority)
    return handle, default.current().group.count()


def poll(handle: int | SparseHandle) -> bool:
    """Return whether `synchronize(handle)` would not block.

    Example::

        while not bps.poll(handle):
            do_something_else()
    """
    number = handle.handle if isinstance(handle, SparseHandle) else handle
    return default.pending().poll(number)


def members_of(handle: int) -> list[int]:
    """Return the ranks whose contributions are in every part of the result of a complete operation.

    None of them when it failed. An average was divided by their number. Handles of this module have
    them as `handle.members` too, which also works after `synchronize`.

    Example::

        bps.synchronize(handle)
        assert bps.members_of(handle) == bps.members()
    """
    return default.pending().members_of(handle)


@overload
def synchronize(handle: Handle[Result]) -> Result: ...


@overload
def synchronize(handle: Callable[[], Result]) -> Result: ...


@overload
def synchronize(handle: int) -> Any: ...


def synchronize(handle: int | Callable[[], object]) -> object:
    """Block until the operation is over; return its result, or raise why it failed.

    The result is a tensor; of a grouped operation, a list of them; of an alltoall, a tensor and
    the received splits. A handle that this process does not know gives None.

    Example::

        mean = bps.synchronize(bps.allreduce_async(tensor, name="loss"))
    """
    if callable(handle):  # of a sparse operation
        return handle()
    return default.pending().synchronize(handle)
