"""BytePS for TensorFlow.

Example::

    import byteps.tensorflow as bps
    bps.init()
    bps.broadcast_variables(model.variables, root_rank=0)
    tape = bps.DistributedGradientTape(tape)
"""

from typing import TYPE_CHECKING, Any

from byteps.common import basics
from byteps.common.basics import *  # noqa: F403
from byteps.common.job.elastic import missing
from byteps.common.programs.program_errors import error_of
from byteps.tensorflow import ops
from byteps.tensorflow.compression import Compression, Compressor
from byteps.tensorflow.ops import *  # noqa: F403
from byteps.tensorflow.optimizer import DistributedOptimizer
from byteps.tensorflow.tape import DistributedGradientTape, PartialDistributedGradientTape
from byteps.tensorflow.weights import (
    BroadcastGlobalVariablesHook,
    broadcast_,
    broadcast_global_variables,
    broadcast_variables,
    check_replicas,
)

__all__ = [
    "BroadcastGlobalVariablesHook",
    "Compression",
    "Compressor",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "PartialDistributedGradientTape",
    "SyncBatchNormalization",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_variables",
    "check_replicas",
    "error_of",
]
__all__ += basics.__all__
__all__ += ops.__all__


if TYPE_CHECKING:  # a checker of types shall know the names that do not exist
    SyncBatchNormalization: Any
else:

    def __getattr__(name: str) -> object:
        """Make the layer, which needs Keras; say what there is in place of elastic training."""
        if name == "SyncBatchNormalization":
            from byteps.tensorflow.sync_batch_norm import layer_class

            return layer_class()
        raise missing(__name__, name)
