"""BytePS for numpy, and for every array that speaks DLPack, in host memory or on a GPU.

Example::

    import byteps.numpy as bps
    bps.init()
    mean = bps.allreduce(histogram, name="histogram")
"""

from byteps.common import basics
from byteps.common.basics import *  # noqa: F403
from byteps.numpy import ops
from byteps.numpy.ops import *  # noqa: F403
from byteps.numpy.shared_arrays import empty_shared
from byteps.numpy.weights import broadcast_parameters, check_replicas

__all__ = [
    "broadcast_parameters",
    "check_replicas",
    "empty_shared",
]
__all__ += basics.__all__
__all__ += ops.__all__
