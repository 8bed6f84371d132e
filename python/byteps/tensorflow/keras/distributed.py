"""What a distributed optimizer of Keras 2 does before its own class does the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import tensorflow as tf

from byteps.keras_common.combining import combined
from byteps.keras_common.settings import OptimizerPart, Settings
from byteps.tensorflow.accumulation import LocalSums
from byteps.tensorflow.keras_backend import BACKEND

Pairs = list[tuple[Any, Any]]


class Part(OptimizerPart):
    """What the optimizer knows beside what its class knows."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.is_combined = False  # the gradients that `apply_gradients` will get next
        self.local_sums: LocalSums | None = None

    def combine(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Return the combined gradients."""
        return combined(BACKEND, self, gradients, variables)


class Distributed:
    """Combines gradients over all ranks. Stands before the class of an optimizer.

    `minimize` computes gradients, which combines them, and applies them. Whoever computes gradients
    without the optimizer has them combined when they are applied.
    """

    byteps_settings: ClassVar[Settings]

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        """Make the optimizer as its own class does."""
        super().__init__(*arguments, **keywords)
        part = Part(self.byteps_settings)
        if part.settings.passes > 1:
            combiner: Any = part
            averages = part.settings.divides_by_passes
            part.local_sums = LocalSums(combiner, part.settings.passes, averages)
        self.byteps_part = part

    def register_local_var(self, var: Any) -> None:
        """Do not exchange the gradient of a variable, which this rank alone has."""
        self.byteps_part.register_local(var)

    def _byteps_combined(self, pairs: Iterable[tuple[Any, Any]]) -> Pairs:
        part: Part = self.byteps_part
        pairs = list(pairs)
        gradients = [gradient for gradient, _ in pairs]
        variables = [variable for _, variable in pairs]
        if part.settings.options.sparse_as_dense:
            gradients = [g if g is None else tf.convert_to_tensor(g) for g in gradients]
        source = part if part.local_sums is None else part.local_sums
        part.is_combined = True
        return list(zip(source.combine(gradients, variables), variables, strict=True))

    def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> Pairs:
        """Return (gradient, variable), with combined gradients."""
        pairs = super().compute_gradients(loss, var_list, tape)  # type: ignore[misc]
        return self._byteps_combined(pairs)

    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> Pairs:
        """Return (gradient, variable), with combined gradients: the name in old optimizers."""
        own: Any = super()
        if hasattr(own, "_compute_gradients"):
            pairs = own._compute_gradients(loss, var_list, grad_loss=grad_loss, tape=tape)
        else:
            pairs = own.compute_gradients(loss, var_list, tape)
        return self._byteps_combined(pairs)

    def get_gradients(self, loss: Any, params: Any) -> list[Any]:
        """Return combined gradients, in a graph of TensorFlow 1."""
        gradients = super().get_gradients(loss, params)  # type: ignore[misc]
        found = self._byteps_combined(zip(gradients, params, strict=True))
        return [gradient for gradient, _ in found]

    def apply_gradients(self, grads_and_vars: Any, *arguments: Any, **keywords: Any) -> Any:
        """Do what the class does, with combined gradients."""
        part: Part = self.byteps_part
        pairs = list(grads_and_vars)
        if not part.is_combined:
            pairs = self._byteps_combined(pairs)
        part.is_combined = False
        step = super().apply_gradients  # type: ignore[misc]
        sums = part.local_sums
        if sums is None:
            return step(pairs, *arguments, **keywords)
        own: Any = self
        with tf.init_scope():
            iterations = own.iterations

        def apply() -> Any:
            done = step(pairs, *arguments, **keywords)
            after = [done] if isinstance(done, (tf.Operation, tf.Tensor)) else []
            with tf.control_dependencies(after):
                return tf.constant(True)

        def skip() -> Any:
            with tf.control_dependencies([iterations.assign_add(1)]):
                return tf.constant(False)

        return sums.apply_if_due([gradient for gradient, _ in pairs], apply, skip)
