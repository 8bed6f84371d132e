"""Optimizers of `tf.compat.v1.train` that combine gradients over all ranks first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from byteps.common.gradients.compression import Compressor
from byteps.common.gradients.exchange_options import ExchangeOptions
from byteps.common.operations.reduction import Average, ReduceOp
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.tensorflow.accumulation import LocalSums
from byteps.tensorflow.compression import Compression
from byteps.tensorflow.errors import with_tensorflow_errors
from byteps.tensorflow.gradients import GradientCombiner, checked_groups

_Legacy: Any = tf.compat.v1.train.Optimizer


class _DistributedOptimizer(_Legacy):
    """An optimizer around another one."""

    def __init__(
        self,
        optimizer: Any,
        name: str,
        use_locking: bool,
        combiner: GradientCombiner,
        sums: LocalSums | None,
    ) -> None:
        super().__init__(name=name, use_locking=use_locking)
        self._optimizer = optimizer
        self._combiner = combiner
        self._sums = sums

    @with_tensorflow_errors
    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Return (gradient, variable), combined over all ranks."""
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        gradients = [gradient for gradient, _ in pairs]
        variables = [variable for _, variable in pairs]
        if self._sums is None:
            found = self._combiner.combine(gradients, variables)
        else:
            found = self._sums.combine(self._combiner.as_chosen(gradients), variables)
        return list(zip(found, variables, strict=True))

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        """Let the optimizer apply them; of several passes in the last one only."""
        pairs = list(grads_and_vars)
        if self._sums is None:
            return self._optimizer.apply_gradients(pairs, global_step, name)
        # Outside of the branches: there a variable would belong to one branch.
        self._optimizer._create_slots(
            [variable for gradient, variable in pairs if gradient is not None]
        )

        def apply() -> Any:
            with tf.control_dependencies([self._optimizer.apply_gradients(pairs, global_step)]):
                return tf.constant(True)

        def skip() -> Any:
            steps = [] if global_step is None else [global_step.assign_add(1)]
            with tf.control_dependencies(steps):
                return tf.constant(False)

        done = self._sums.apply_if_due([gradient for gradient, _ in pairs], apply, skip)
        return tf.group(done, name=name)

    def register_local_var(self, variable: Any) -> None:
        """Let the gradient of a variable stay on this rank."""
        self._combiner.local.add(variable)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Do what the optimizer does."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Sequence[str]:
        """Do what the optimizer does."""
        names: Sequence[str] = self._optimizer.get_slot_names(*args, **kwargs)
        return names

    def variables(self, *args: Any, **kwargs: Any) -> Any:
        """Do what the optimizer does."""
        return self._optimizer.variables(*args, **kwargs)


def DistributedOptimizer(  # noqa: N802
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor | type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Return an optimizer that combines gradients over all ranks, then does what `optimizer`, one
    of `tf.compat.v1.train`, does. Keras has `byteps.tensorflow.keras`, to which optimizers of Keras
    are given.

    With `backward_passes_per_step` above 1, gradients are added up on each rank for so many calls
    of `compute_gradients`, of which the last one combines the sums; the others change no weight.
    `average_aggregated_gradients` divides the sums by the number of passes. `num_groups` is
    deprecated: use `groups`, a number or lists of variables whose gradients travel together.

    Example::

        optimizer = tf.compat.v1.train.AdagradOptimizer(0.01 * bps.size())
        train_op = bps.DistributedOptimizer(optimizer).minimize(loss)
    """
    if not isinstance(optimizer, tf.compat.v1.train.Optimizer):
        return _of_keras(
            optimizer,
            name=name,
            device_dense=device_dense,
            device_sparse=device_sparse,
            compression=compression,
            sparse_as_dense=sparse_as_dense,
            gradient_predivide_factor=gradient_predivide_factor,
            op=op,
            backward_passes_per_step=backward_passes_per_step,
            average_aggregated_gradients=average_aggregated_gradients,
            num_groups=num_groups,
            groups=groups,
            process_set=process_set,
            scale_local_gradients=scale_local_gradients,
        )
    options = ExchangeOptions(
        compression, backward_passes_per_step, op, gradient_predivide_factor,
        sparse_as_dense, process_set,
    )  # fmt: skip
    groups = checked_groups(groups, num_groups)
    name = name or f"Distributed{type(optimizer).__name__}"
    combiner = GradientCombiner(options, name, groups, scale_local_gradients)
    sums = None
    if backward_passes_per_step > 1:
        if tf.executing_eagerly():
            raise ValueError(
                "backward_passes_per_step > 1 is not supported yet for "
                "tf.compat.v1 optimizers in eager mode. Make the graph in tf.Graph().as_default()."
            )
        sums = LocalSums(combiner, int(backward_passes_per_step), average_aggregated_gradients)
    return _DistributedOptimizer(optimizer, name, use_locking, combiner, sums)


def _of_keras(optimizer: Any, **options: Any) -> Any:
    if not hasattr(optimizer, "get_config"):
        raise ValueError(
            "Provided optimizer doesn't inherit from either legacy TensorFlow or Keras optimizer: "
            f"{optimizer}"
        )
    from byteps.tensorflow.keras import DistributedOptimizer as OfKeras

    return OfKeras(optimizer, **options)
