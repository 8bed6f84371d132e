"""Batch normalization over the batches of all ranks, for the Keras that `tf.keras` is."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from byteps.common.operations.reduction import Average
from byteps.common.session.process_sets import global_process_set, has_others
from byteps.tensorflow.reductions import allreduce


def _over_ranks(mean: Any, variance: Any) -> tuple[Any, Any]:
    """Return mean and variance over the batches of all ranks, which count alike."""
    if not has_others(global_process_set):
        return mean, variance
    both = allreduce(tf.stack([mean, variance + tf.square(mean)]), op=Average)
    return both[0], both[1] - tf.square(both[0])


@functools.cache
def layer_class() -> Any:
    """Return the class; not made before somebody wants it, because it imports Keras."""

    class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
        """Batch normalization whose mean and variance are those of the batches of all ranks.

        Batches of different size count alike. In inference, and in a job of one, it is
        BatchNormalization.

        Example::

            model.add(bps.SyncBatchNormalization())
        """

        def __init__(self, fused: Any = False, **options: Any) -> None:
            if fused is None or fused:
                raise ValueError(
                    f"SyncBatchNormalization does not support fused={fused}; leave it False."
                )
            if _has_option_fused():
                options["fused"] = False
            super().__init__(**options)

        def _moments(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
            return _over_ranks(*super()._moments(*args, **kwargs))

        def get_config(self) -> Any:
            """Return what makes the same layer."""
            config = super().get_config()
            config.pop("fused", None)
            return config

    SyncBatchNormalization.__module__ = "byteps.tensorflow"
    SyncBatchNormalization.__qualname__ = "SyncBatchNormalization"
    return SyncBatchNormalization


def _has_option_fused() -> bool:
    """Return whether it is Keras 2, whose default is a kernel that computes the moments itself."""
    return str(getattr(tf.keras, "__version__", "3")).startswith("2")
