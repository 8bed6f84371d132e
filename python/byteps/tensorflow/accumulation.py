"""Gradients that are added up on a rank for several passes, in variables of TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from byteps.tensorflow.gradients import GradientCombiner


class LocalSums:
    """Adds up gradients; combines the sums over all ranks in every `passes`-th call. Works in
    graphs, in tf.functions and eagerly."""

    def __init__(self, combiner: GradientCombiner, passes: int, averages: bool) -> None:
        """Divide the sums by `passes` if `averages`."""
        self._combiner = combiner
        self._passes = passes
        self._averages = averages
        self._sums: list[Any] = []
        self.counter: Any = None  # the passes since the last exchange

    def build(self, gradients: Sequence[Any]) -> None:
        """Make the variables, for gradients like these, unless they are there."""
        if self.counter is not None:
            return
        self.counter = _zeros([], tf.int32, "byteps_passes")
        for i, gradient in enumerate(gradients):
            self._sums.append(
                None
                if gradient is None
                else _zeros(gradient.shape, gradient.dtype, f"byteps_sum_{i}")
            )

    def combine(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Return the combined sums in the last of `passes` calls; in the others the gradients
        count for nothing."""
        if any(isinstance(one, tf.IndexedSlices) for one in gradients):
            raise ValueError(
                "IndexedSlices are not supported when backward_passes_per_step > 1 and "
                "sparse_as_dense is False."
            )
        self.build(gradients)
        places = [i for i, one in enumerate(gradients) if one is not None]
        added = [self._sums[i].assign_add(gradients[i]) for i in places]
        with tf.control_dependencies(added):
            passes = self.counter.assign_add(1)
        sums = self._sums

        def exchange() -> list[Any]:
            found: list[Any] = [None] * len(gradients)
            for i in places:
                found[i] = tf.convert_to_tensor(sums[i])
            found = self._combiner.combine(found, variables)
            results = [found[i] for i in places]
            if self._averages:
                results = [one / self._passes for one in results]
            with tf.control_dependencies(results):
                # Zeros are assigned: an infinite sum times zero would stay.
                cleared = [sums[i].assign(tf.zeros_like(sums[i])) for i in places]
                cleared.append(self.counter.assign(0))
            with tf.control_dependencies([tf.convert_to_tensor(one) for one in cleared]):
                return [tf.identity(one) for one in results]

        def wait() -> list[Any]:
            return [tf.convert_to_tensor(gradients[i]) for i in places]

        with tf.control_dependencies([passes]):
            found = tf.cond(tf.greater_equal(passes, self._passes), exchange, wait)
        results: list[Any] = list(gradients)
        for i, one in zip(places, found, strict=True):
            results[i] = one
        return results

    def apply_if_due(
        self, after: Sequence[Any], apply: Callable[[], Any], skip: Callable[[], Any]
    ) -> Any:
        """Call `apply` if the pass before has exchanged gradients, else `skip`."""
        with tf.control_dependencies([one for one in after if one is not None]):
            is_due = tf.equal(tf.identity(self.counter), 0)
        return tf.cond(is_due, apply, skip)


def _zeros(shape: Any, dtype: Any, name: str) -> Any:
    """Return a variable, outside of the tf.function that is being made, if there is one."""
    with tf.init_scope():
        return tf.compat.v1.Variable(
            tf.zeros(shape, dtype), trainable=False, name=name, use_resource=True
        )
