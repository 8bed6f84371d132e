"""What `byteps.tensorflow.keras` exports to programs with Keras 2."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from byteps.common.operations.barriers import barrier, join
from byteps.common.operations.objects import allgather_object, broadcast_object
from byteps.keras_common.optimizers import MakesOptimizers
from byteps.keras_common.settings import Settings
from byteps.keras_common.subclass import is_distributed, subclass
from byteps.keras_common.values import Values
from byteps.tensorflow import ops
from byteps.tensorflow.keras import callbacks
from byteps.tensorflow.keras.access import KERAS_2, broadcast_variables, keras
from byteps.tensorflow.keras.distributed import Distributed
from byteps.tensorflow.keras_backend import BACKEND
from byteps.tensorflow.weights import broadcast_global_variables

__all__ = [
    "allgather_object",
    "barrier",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_variables",
    "callbacks",
    "join",
]

Compression = BACKEND.compression
typed_errors = BACKEND.typed_errors


def _tensor_of(value: Any) -> Any:
    return tf.convert_to_tensor(value) if tf.is_tensor(value) else None


_VALUES = Values(ops, _tensor_of, tf.convert_to_tensor)
allgather = _VALUES.allgather
allreduce = _VALUES.allreduce
alltoall = _VALUES.alltoall
broadcast = _VALUES.broadcast
push_pull = _VALUES.push_pull
reducescatter = _VALUES.reducescatter


def is_of_keras_2(optimizer: Any) -> bool:
    """Return whether this is an optimizer of Keras 2, a new or an old one."""
    kinds = (keras.optimizers.Optimizer, keras.optimizers.legacy.Optimizer)
    return isinstance(optimizer, kinds)


def distributed_with(optimizer: Any, settings: Settings, trained: Any) -> Any:
    """Return a distributed optimizer. It has the state of `optimizer` if the caller knows which
    variables that trains."""
    if not is_of_keras_2(optimizer):
        raise ValueError(
            f"DistributedOptimizer takes an optimizer of Keras 2; this is a "
            f"{type(optimizer).__name__}. For those of Keras 3 use byteps.keras."
        )
    if is_distributed(optimizer):
        raise ValueError("this optimizer is distributed already.")
    made: Any = subclass(Distributed, type(optimizer), settings)
    result = made.from_config(optimizer.get_config())
    if trained is not None:
        _copy_state(optimizer, result, trained)
    return result


def _copy_state(source: Any, target: Any, trained: Any) -> None:
    if hasattr(target, "_create_all_weights"):  # an old optimizer
        target._create_all_weights(trained)
        if source.get_weights():
            target.set_weights(source.get_weights())
        return
    target.build(trained)
    variables = KERAS_2.optimizer_variables
    for one, other in zip(variables(source), variables(target), strict=True):
        other.assign(one)


_MAKES = MakesOptimizers(distributed_with, keras.models.load_model)
DistributedOptimizer = _MAKES.DistributedOptimizer
PartialDistributedOptimizer = _MAKES.PartialDistributedOptimizer
load_model = _MAKES.load_model
