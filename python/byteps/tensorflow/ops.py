"""Operations on tensors, eager and in graphs. Names are the same on all ranks."""

from __future__ import annotations

from byteps.common.operations.barriers import barrier
from byteps.tensorflow.objects import allgather_object, broadcast_object, broadcast_object_fn
from byteps.tensorflow.reductions import allreduce, grouped_allreduce, push_pull
from byteps.tensorflow.rows import (
    allgather,
    alltoall,
    broadcast,
    grouped_allgather,
    grouped_reducescatter,
    reducescatter,
)
from byteps.tensorflow.sizes import (
    join,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    size_op,
)

__all__ = [
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_object",
    "broadcast_object_fn",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "join",
    "local_rank_op",
    "local_size_op",
    "process_set_included_op",
    "push_pull",
    "rank_op",
    "reducescatter",
    "size_op",
]
