"""Operations on arrays of MXNet.

Those that keep the shape of the array return at once: MXNet's engine starts them when the array is
computed, and goes on with everything else meanwhile. The others wait for their result. Forms that
end in `_` overwrite what they are given. Names are the same on all ranks.
"""

from __future__ import annotations

import contextlib

import mxnet as mx

from byteps.common.operations import barriers
from byteps.common.operations.barriers import barrier
from byteps.common.operations.objects import allgather_object, broadcast_object
from byteps.mxnet.errors import raises_mxnet_errors
from byteps.mxnet.reductions import (
    allreduce,
    allreduce_,
    byteps_declare_tensor,
    byteps_push_pull,
    grouped_allreduce,
    grouped_allreduce_,
)
from byteps.mxnet.rows import (
    allgather,
    alltoall,
    broadcast,
    broadcast_,
    grouped_allgather,
    grouped_reducescatter,
    reducescatter,
)


@raises_mxnet_errors
def join(device: int = -1) -> int:
    """Wait for the engine; tell that this rank has no more data; block until all ranks have. Return
    the last rank.

    Until all ranks have joined, the others go on without this rank. It counts as zeros in sums, and
    averages still divide by the number of all ranks.

    Example::

        bps.broadcast_parameters(net.collect_params(), root_rank=bps.join())
    """
    with contextlib.suppress(mx.MXNetError):  # who reads the results is told
        mx.nd.waitall()
    return barriers.join(device)


__all__ = [
    "allgather",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_object",
    "byteps_declare_tensor",
    "byteps_push_pull",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_reducescatter",
    "join",
    "reducescatter",
]
