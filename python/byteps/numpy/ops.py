"""Operations on arrays, each in a synchronous and an asynchronous form.

They take arrays of numpy, everything that speaks DLPack, and what `numpy.asarray` takes. Results
are arrays of numpy; of arrays on a GPU they are on that GPU. Forms that end in `_` or `inplace`
overwrite what they are given. Names are the same on all ranks. A handle is a positive int; give
each one to `synchronize` once; the array must not change until then.
"""

from __future__ import annotations

from byteps.common.operations.barriers import barrier, join
from byteps.common.operations.objects import allgather_object, broadcast_object
from byteps.numpy.handles import members_of, poll, synchronize
from byteps.numpy.reductions import (
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    push_pull,
    push_pull_async,
    push_pull_async_inplace,
    push_pull_inplace,
)
from byteps.numpy.rows import (
    allgather,
    allgather_async,
    alltoall,
    alltoall_async,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    grouped_allgather,
    grouped_allgather_async,
    grouped_reducescatter,
    grouped_reducescatter_async,
    reducescatter,
    reducescatter_async,
)

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
    "push_pull_inplace",
    "reducescatter",
    "reducescatter_async",
    "synchronize",
]
