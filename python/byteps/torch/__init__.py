"""BytePS for PyTorch.

Example::

    import byteps.torch as bps
    bps.init()
    optimizer = bps.DistributedOptimizer(optimizer, model.named_parameters())
    bps.broadcast_parameters(model.state_dict(), root_rank=0)
"""

from typing import TYPE_CHECKING

from byteps.common import build, errors
from byteps.common.build import *  # noqa: F403
from byteps.common.default import (
    add_process_set,
    cross_rank,
    cross_size,
    declare,
    get_pushpull_speed,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    members,
    rank,
    remove_process_set,
    resume,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
    suspend,
)
from byteps.common.errors import *  # noqa: F403
from byteps.common.process_sets import ProcessSet, global_process_set
from byteps.common.reduction import Adasum, Average, Max, Min, Product, ReduceOp, Sum
from byteps.torch import ops
from byteps.torch.compiled.collectives import register as _register_operations
from byteps.torch.compiled.push_pull import push_pull_start, push_pull_wait
from byteps.torch.compression import Compression, Compressor
from byteps.torch.ddp_hook import DDPHookState, ddp_comm_hook
from byteps.torch.distributed import register as _register_with_torch
from byteps.torch.initial_state import broadcast_optimizer_state, broadcast_parameters
from byteps.torch.ops import *  # noqa: F403
from byteps.torch.optimizer import DistributedOptimizer
from byteps.torch.replicas import check_replicas
from byteps.torch.sync_batch_norm import SyncBatchNorm

_register_operations()
_register_with_torch()
byteps_push_pull = ops.push_pull_async_inplace

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "Compressor",
    "DDPHookState",
    "DistributedOptimizer",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "ReduceOp",
    "Sum",
    "SyncBatchNorm",
    "add_process_set",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "byteps_push_pull",
    "check_replicas",
    "cross_rank",
    "cross_size",
    "ddp_comm_hook",
    "declare",
    "get_pushpull_speed",
    "global_process_set",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "members",
    "push_pull_start",
    "push_pull_wait",
    "rank",
    "remove_process_set",
    "resume",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
    "suspend",
]
__all__ += build.__all__
__all__ += errors.__all__
__all__ += ops.__all__

if not TYPE_CHECKING:  # a checker of types shall know the names that do not exist

    def __getattr__(name: str) -> object:
        """Say what there is in place of elastic training, which does not exist here."""
        if name in ("elastic", "HostsUpdatedInterrupt"):
            raise AttributeError(
                f"byteps.torch has no {name}: no worker can join a running job. If the job shall "
                "go on after it has lost workers, start it with `bps run --min-np` and save "
                "checkpoints; docs/migrating.md says more."
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
