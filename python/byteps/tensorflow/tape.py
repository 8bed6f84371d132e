"""Gradient tapes whose gradients are combined over all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from byteps.common.gradients.compression import Compressor
from byteps.common.gradients.exchange_options import ExchangeOptions
from byteps.common.operations.reduction import Average, ReduceOp
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.tensorflow.compression import Compression
from byteps.tensorflow.errors import with_tensorflow_errors
from byteps.tensorflow.gradients import GradientCombiner, checked_groups


class _Distributed:
    """What a tape has beside what its class has; `_combiner` is in the class made for it."""

    _combiner: GradientCombiner

    @with_tensorflow_errors
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        use_generic_names: bool = False,
        **options: Any,
    ) -> Any:
        """Return the gradients, combined over all ranks, in the structure of the sources."""
        del use_generic_names  # names are generic
        tape: Any = super()
        gradients = tape.gradient(target, sources, output_gradients, **options)
        return self._combined(gradients, sources)

    def _combined(self, gradients: Any, sources: Any) -> Any:
        flat = self._combiner.combine(_flat(gradients), tf.nest.flatten(sources))
        return tf.nest.pack_sequence_as(sources, flat)

    def register_local_source(self, source: Any) -> None:
        """Let the gradient of a variable stay on this rank."""
        self._combiner.local.add(source)

    def get_local_and_global_gradients(
        self, target: Any, sources: Any, output_gradients: Any = None, **options: Any
    ) -> tuple[list[tuple[Any, Any]], list[tuple[Any, Any]]]:
        """Return (source, gradient) of the local and of the other sources."""
        gradients = self.gradient(target, sources, output_gradients, **options)
        pairs = list(zip(tf.nest.flatten(sources), _flat(gradients), strict=True))
        local = [pair for pair in pairs if pair[0] in self._combiner.local]
        return local, [pair for pair in pairs if pair[0] not in self._combiner.local]


def _flat(gradients: Any) -> list[Any]:
    return list(tf.nest.flatten(gradients, expand_composites=False))


def _wrapped(tape: Any, combiner: GradientCombiner) -> Any:
    """Return an object of a class of the same name that shares the tape's recording."""
    kind = type(tape)
    wrapped: Any = type(kind.__name__, (_Distributed, kind), {"_combiner": combiner})
    distributed = wrapped.__new__(wrapped)
    distributed.__dict__ = tape.__dict__
    return distributed


def DistributedGradientTape(  # noqa: N802
    gradtape: Any,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor | type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Return a tape like `gradtape` whose gradients are combined over all ranks.

    In a tf.function each gradient travels as soon as it is there. With `groups`, a number or lists
    of variables, gradients travel together. A source that was given to
    `register_local_source(variable)` keeps its own gradient, divided by the number of ranks unless
    `scale_local_gradients` is False. On a rank that is not in the process set, gradients stay as
    they are. `num_groups` is deprecated: use `groups`.

    Example::

        with tf.GradientTape() as tape:
            loss = loss_of(model(images), labels)
        tape = bps.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
    """
    del device_dense, device_sparse
    options = ExchangeOptions(
        compression, 1, op, gradient_predivide_factor, sparse_as_dense, process_set
    )
    groups = checked_groups(groups, num_groups)
    name = "DistributedGradientTape"
    return _wrapped(gradtape, GradientCombiner(options, name, groups, scale_local_gradients))


def PartialDistributedGradientTape(  # noqa: N802
    gradtape: Any,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor | type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """Return a `DistributedGradientTape` for which the trainable weights of `local_layers`, a Keras
    layer or a list of them, are local sources.

    Example::

        tape = bps.PartialDistributedGradientTape(tape, local_layers=model.layers[0])
    """
    tape = DistributedGradientTape(
        gradtape, device_dense, device_sparse, compression, sparse_as_dense, op,
        gradient_predivide_factor, num_groups, groups, process_set, scale_local_gradients,
    )  # fmt: skip
    for variable in local_weights(local_layers):
        tape.register_local_source(variable)
    return tape


def local_weights(layers: Any) -> list[Any]:
    """Return the trainable weights of a Keras layer, of a list of layers, or of None."""
    if layers is None:
        return []
    given: Sequence[Any] = layers if isinstance(layers, (list, tuple)) else [layers]
    if not all(hasattr(layer, "trainable_weights") for layer in given):
        raise ValueError("local_layers should be a Keras layer, a list of Keras layers, or None.")
    return [weight for layer in given for weight in layer.trainable_weights]
