"""Optimizers of Keras 3 that combine gradients over all ranks first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from byteps.common.compression import Compressor
from byteps.common.exchange_options import ExchangeOptions
from byteps.common.process_sets import ProcessSet, global_process_set
from byteps.common.reduction import Average, ReduceOp
from byteps.keras.backends import BACKEND
from byteps.keras.distributed import Distributed
from byteps.keras_common.settings import Settings, check_groups, layers_in
from byteps.keras_common.subclass import is_distributed, subclass

_NONE = BACKEND.compression.none


def DistributedOptimizer(  # noqa: N802
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor | type[Compressor] = _NONE,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: ReduceOp = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Return an optimizer that averages gradients over all ranks, then does what `optimizer` does.

    It is of a subclass of the optimizer's class, with the same name and the same config: what it
    saves can be loaded without byteps. Give it to `model.compile`, or call `apply`.

    With `backward_passes_per_step` above 1, gradients are added up for so many batches, of which
    the last one exchanges the sum; the others change no weights. With
    `average_aggregated_gradients` the sum is divided by the number of batches. On a rank that is
    not in the process set, gradients stay as they are. Two optimizers in one program need different
    names. `device_dense`, `device_sparse` and `groups` are accepted and change nothing.

    With mixed_float16, the optimizer is put into a LossScaleOptimizer first.

    Example::

        optimizer = bps.DistributedOptimizer(keras.optimizers.Adam(1e-3 * bps.size()))
        model.compile(optimizer, loss="mse")
    """
    del device_dense, device_sparse
    check_groups(num_groups, groups)
    options = ExchangeOptions(
        compression,
        backward_passes_per_step,
        op,
        gradient_predivide_factor,
        sparse_as_dense,
        process_set,
    )
    return _distributed(
        optimizer, options, name, average_aggregated_gradients, None, scale_local_gradients
    )


def PartialDistributedOptimizer(  # noqa: N802
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor | type[Compressor] = _NONE,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: ReduceOp = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """Do `DistributedOptimizer`, and leave the weights of some layers to each rank.

    The gradients of `local_layers`, a layer or a list, are not exchanged. They are divided by the
    number of ranks, unless `scale_local_gradients` is False.

    Example::

        optimizer = bps.PartialDistributedOptimizer(optimizer, local_layers=[model.layers[0]])
    """
    del device_dense, device_sparse
    check_groups(0, groups)
    options = ExchangeOptions(
        compression,
        backward_passes_per_step,
        op,
        gradient_predivide_factor,
        sparse_as_dense,
        process_set,
    )
    return _distributed(
        optimizer, options, name, average_aggregated_gradients, local_layers, scale_local_gradients
    )


def _distributed(
    optimizer: Any,
    options: ExchangeOptions,
    name: str | None,
    divides_by_passes: bool,
    local_layers: Any,
    scales_local: bool,
) -> Any:
    options.check()
    layers = layers_in(local_layers)
    settings = Settings(options, name or "Gradient", divides_by_passes, layers, scales_local)
    return distributed_with(optimizer, settings)


def distributed_with(optimizer: Any, settings: Settings) -> Any:
    """Return a distributed optimizer that has the state of `optimizer`."""
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
    made = _class_for(type(optimizer), settings).from_config(optimizer.get_config())
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


def load_model(
    filepath: Any,
    custom_optimizers: Sequence[type] | None = None,
    custom_objects: dict[str, Any] | None = None,
    compression: Compressor | type[Compressor] = _NONE,
    legacy_opts: bool = False,
) -> Any:
    """Return a model that was saved, with its optimizer, which becomes a distributed one.

    The optimizer keeps its learning rate and its state, whether byteps was there when it was saved
    or not. `custom_optimizers` are classes of the user's. `legacy_opts` is accepted and changes
    nothing.

    Example::

        model = bps.load_model("checkpoint.keras")
        model.fit(images, labels)
    """
    del legacy_opts
    objects = {one.__name__: one for one in custom_optimizers or ()}
    objects.update(custom_objects or {})
    model = keras.models.load_model(filepath, custom_objects=objects)
    if getattr(model, "optimizer", None) is not None:
        options = ExchangeOptions(compression)
        options.check()
        model.optimizer = distributed_with(model.optimizer, Settings(options))
    return model
