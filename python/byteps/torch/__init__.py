"""BytePS for PyTorch.

Example::

    import byteps.torch as bps
    bps.init()
    optimizer = bps.DistributedOptimizer(optimizer, model.named_parameters())
    bps.broadcast_parameters(model.state_dict(), root_rank=0)
"""

from byteps.common.default import (
    declare,
    get_pushpull_speed,
    init,
    is_initialized,
    local_rank,
    local_size,
    members,
    rank,
    shutdown,
    size,
)
from byteps.common.errors import (
    BytepsError,
    DeadlineError,
    DuplicateNameError,
    EvictedError,
    ExhaustedError,
    InternalError,
    InvalidArgumentError,
    MismatchError,
    NotInitializedError,
    PeerLostError,
    ProtocolError,
    RefusedError,
    ShutdownError,
    UnavailableError,
)
from byteps.torch.broadcast import (
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from byteps.torch.compression import Compression
from byteps.torch.ops import (
    allgather,
    allgather_async,
    barrier,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    byteps_torch_set_num_grads,
    members_of,
    poll,
    push_pull,
    push_pull_async,
    push_pull_async_inplace,
    push_pull_group_sync_inplace,
    push_pull_inplace,
    synchronize,
)
from byteps.torch.optimizer import DistributedOptimizer

byteps_push_pull = push_pull_async_inplace

__all__ = [
    "BytepsError",
    "Compression",
    "DeadlineError",
    "DistributedOptimizer",
    "DuplicateNameError",
    "EvictedError",
    "ExhaustedError",
    "InternalError",
    "InvalidArgumentError",
    "MismatchError",
    "NotInitializedError",
    "PeerLostError",
    "ProtocolError",
    "RefusedError",
    "ShutdownError",
    "UnavailableError",
    "allgather",
    "allgather_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "byteps_push_pull",
    "byteps_torch_set_num_grads",
    "declare",
    "get_pushpull_speed",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "members",
    "members_of",
    "poll",
    "push_pull",
    "push_pull_async",
    "push_pull_async_inplace",
    "push_pull_group_sync_inplace",
    "push_pull_inplace",
    "rank",
    "shutdown",
    "size",
    "synchronize",
]
