"""BytePS for PyTorch.

Example::

    import byteps.torch as bps
    bps.init()
    optimizer = bps.DistributedOptimizer(optimizer, model.named_parameters())
    bps.broadcast_parameters(model.state_dict(), root_rank=0)
"""

from typing import TYPE_CHECKING

from byteps.common import basics
from byteps.common.basics import *  # noqa: F403
from byteps.common.job.elastic import missing
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
from byteps.torch.shared_tensors import empty_shared, share_gradients
from byteps.torch.sync_batch_norm import SyncBatchNorm

_register_operations()
_register_with_torch()
byteps_push_pull = ops.push_pull_async_inplace

__all__ = [
    "Compression",
    "Compressor",
    "DDPHookState",
    "DistributedOptimizer",
    "SyncBatchNorm",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "byteps_push_pull",
    "check_replicas",
    "ddp_comm_hook",
    "empty_shared",
    "push_pull_start",
    "push_pull_wait",
    "share_gradients",
]
__all__ += basics.__all__
__all__ += ops.__all__

if not TYPE_CHECKING:  # a checker of types shall know the names that do not exist

    def __getattr__(name: str) -> object:
        """Say what there is in place of elastic training, which does not exist here."""
        raise missing(__name__, name)
