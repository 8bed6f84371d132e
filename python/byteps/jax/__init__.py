"""BytePS for JAX.

Example::

    import byteps.jax as bps
    bps.init()
    weights = bps.broadcast_parameters(weights, root_rank=0)
    optimizer = bps.DistributedOptimizer(optax.sgd(0.1))
"""

from byteps.common import basics
from byteps.common.basics import *  # noqa: F403
from byteps.common.programs.program_errors import error_of
from byteps.jax import ops
from byteps.jax.compression import Compression, Compressor
from byteps.jax.ops import *  # noqa: F403
from byteps.jax.optimizer import DistributedOptimizer
from byteps.jax.typed_errors import typed_errors
from byteps.jax.weights import broadcast_parameters, check_replicas

__all__ = [
    "Compression",
    "Compressor",
    "DistributedOptimizer",
    "broadcast_parameters",
    "check_replicas",
    "error_of",
    "typed_errors",
]
__all__ += basics.__all__
__all__ += ops.__all__
