"""BytePS for MXNet.

Example::

    import byteps.mxnet as bps
    bps.init()
    bps.broadcast_parameters(net.collect_params(), root_rank=0)
    trainer = bps.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
"""

from byteps.common import basics
from byteps.common.basics import *  # noqa: F403
from byteps.mxnet import ops
from byteps.mxnet.compression import Compression, Compressor
from byteps.mxnet.ops import *  # noqa: F403
from byteps.mxnet.optimizer import DistributedOptimizer
from byteps.mxnet.trainer import DistributedTrainer
from byteps.mxnet.weights import broadcast_parameters, check_replicas

__all__ = [
    "Compression",
    "Compressor",
    "DistributedOptimizer",
    "DistributedTrainer",
    "broadcast_parameters",
    "check_replicas",
]
__all__ += basics.__all__
__all__ += ops.__all__
