"""Operations on arrays and trees of arrays.

Names are the same on all ranks. `None` in a tree stays. Exchanges outside jit block until the
results are there; inside jit, XLA goes on with what does not need them.
"""

from __future__ import annotations

from byteps.common.operations.barriers import barrier, join
from byteps.common.operations.objects import allgather_object, broadcast_object
from byteps.jax.reductions import (
    allreduce,
    grouped_allreduce,
    push_pull,
    push_pull_done,
    push_pull_start,
)
from byteps.jax.rows import (
    allgather,
    alltoall,
    broadcast,
    grouped_allgather,
    grouped_reducescatter,
    reducescatter,
)

__all__ = [
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_object",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "join",
    "push_pull",
    "push_pull_done",
    "push_pull_start",
    "reducescatter",
]
