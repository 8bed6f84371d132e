"""Optimizers of Keras 3 that combine gradients over all ranks first.

A program may have Keras 2 beside it: with TF_USE_LEGACY_KERAS=1 `tf.keras` is the package tf_keras.
An optimizer of that one is made distributed by byteps.tensorflow.keras, here, too.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import keras

from byteps.keras.distributed import Distributed
from byteps.keras_common.optimizers import MakesOptimizers
from byteps.keras_common.settings import Settings
from byteps.keras_common.subclass import is_distributed, subclass


def _distributed_with(optimizer: Any, settings: Settings, trained: Any) -> Any:
    """Return a distributed optimizer that has the state of `optimizer`."""
    if "tf_keras" in sys.modules:
        keras2 = importlib.import_module("byteps.tensorflow.keras.keras2")
        if keras2.is_of_keras_2(optimizer):
            return keras2.distributed_with(optimizer, settings, trained)
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise ValueError(
            f"DistributedOptimizer takes an optimizer of Keras 3; this is a "
            f"{type(optimizer).__name__}. For optimizers of TensorFlow use byteps.tensorflow, for "
            "those of Keras 2 byteps.tensorflow.keras."
        )
    if is_distributed(optimizer):
        raise ValueError("this optimizer is distributed already.")
    scaling = keras.optimizers.LossScaleOptimizer
    if keras.config.dtype_policy().name == "mixed_float16" and not isinstance(optimizer, scaling):
        # Outside, a rank would exchange only where its own gradients are finite.
        optimizer = scaling(optimizer, name="loss_scale_optimizer")
    kind: Any = _class_for(type(optimizer), settings)
    made = kind.from_config(optimizer.get_config())
    if optimizer.built:
        _copy_state(optimizer, made)
    return made


def _class_for(base: type, settings: Settings) -> type:
    made = subclass(Distributed, base, settings)
    if getattr(keras.optimizers, base.__name__, None) is base:
        made.__module__ = "keras.optimizers"  # where Keras says in its files that the class is
    package, _, name = keras.saving.get_registered_name(base).rpartition(">")
    if package:
        # An own class of the user's, which Keras knows by this name; in the end the name stands
        # for that class again.
        for known in (made, base):
            keras.saving.register_keras_serializable(package, name)(known)
    return made


def _copy_state(source: Any, target: Any) -> None:
    target.build(source._trainable_variables)
    target.built = True
    own = {id(variable) for variable in target.byteps_part.own_variables}
    targets = [variable for variable in target.variables if id(variable) not in own]
    for one, other in zip(source.variables, targets, strict=True):
        other.assign(one.value)


_MAKES = MakesOptimizers(_distributed_with, keras.models.load_model)
DistributedOptimizer = _MAKES.DistributedOptimizer
PartialDistributedOptimizer = _MAKES.PartialDistributedOptimizer
load_model = _MAKES.load_model
