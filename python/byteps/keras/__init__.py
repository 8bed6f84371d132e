"""BytePS for Keras 3, on JAX, torch or TensorFlow.

Example::

    import byteps.keras as bps
    bps.init()
    model.compile(bps.DistributedOptimizer(keras.optimizers.Adam(1e-3)), loss="mse")
    model.fit(images, labels, callbacks=[bps.callbacks.BroadcastGlobalVariablesCallback(0)])
"""

from typing import TYPE_CHECKING

from byteps.common import basics
from byteps.common.basics import *  # noqa: F403
from byteps.common.job.elastic import missing
from byteps.keras import callbacks, ops
from byteps.keras.access import broadcast_global_variables, broadcast_variables
from byteps.keras.backends import BACKEND
from byteps.keras.ops import *  # noqa: F403
from byteps.keras.optimizer import DistributedOptimizer, PartialDistributedOptimizer, load_model

Compression = BACKEND.compression
typed_errors = BACKEND.typed_errors

__all__ = [
    "Compression",
    "DistributedOptimizer",
    "PartialDistributedOptimizer",
    "broadcast_global_variables",
    "broadcast_variables",
    "callbacks",
    "load_model",
    "typed_errors",
]
__all__ += basics.__all__
__all__ += ops.__all__

if not TYPE_CHECKING:  # a checker of types shall know the names that do not exist

    def __getattr__(name: str) -> object:
        """Say what there is in place of elastic training, which does not exist here."""
        raise missing(__name__, name)
