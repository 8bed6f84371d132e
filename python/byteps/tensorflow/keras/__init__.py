"""BytePS for the Keras of a program of TensorFlow: Keras 2, or Keras 3 where `tf.keras` is that.

Example::

    import tf_keras
    import byteps.tensorflow.keras as bps
    bps.init()
    model.compile(bps.DistributedOptimizer(tf_keras.optimizers.Adam(1e-3)), loss="mse")
"""

from typing import TYPE_CHECKING

from byteps.common import basics
from byteps.common.basics import *  # noqa: F403
from byteps.common.job.elastic import missing
from byteps.tensorflow.keras.installed_keras import keras_2

_NAMES = [
    "Compression",
    "DistributedOptimizer",
    "PartialDistributedOptimizer",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_variables",
    "callbacks",
    "join",
    "load_model",
    "push_pull",
    "reducescatter",
    "typed_errors",
]

if TYPE_CHECKING:
    from byteps.keras import *  # noqa: F403
elif keras_2() is None:
    import byteps.keras as _module
else:
    import byteps.tensorflow.keras.keras2 as _module

if not TYPE_CHECKING:
    globals().update({name: getattr(_module, name) for name in _NAMES})

__all__ = [*_NAMES, *basics.__all__]  # noqa: PLE0604

if not TYPE_CHECKING:  # a checker of types shall know the names that do not exist

    def __getattr__(name: str) -> object:
        """Say what there is in place of elastic training, which does not exist here."""
        raise missing(__name__, name)
