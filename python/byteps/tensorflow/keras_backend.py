"""What Keras on TensorFlow, of either version, needs of this adapter (keras_common/backend.py)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from byteps.common.gradients.exchange_options import ExchangeOptions
from byteps.common.operations.call import Call
from byteps.common.programs.program_errors import error_of
from byteps.tensorflow import ops
from byteps.tensorflow.compression import Compression
from byteps.tensorflow.errors import tensorflow_error
from byteps.tensorflow.named_gradients import combine_named


class _TensorFlow:
    ops = ops
    compression = Compression

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, (tf.Tensor, tf.IndexedSlices))

    def is_concrete(self, value: Any) -> bool:
        return bool(tf.executing_eagerly())

    def is_sparse(self, gradient: Any) -> bool:
        return isinstance(gradient, tf.IndexedSlices)

    def to_dense(self, gradient: Any) -> Any:
        return tf.convert_to_tensor(gradient)

    def scaled(self, gradient: Any, factor: float) -> Any:
        if isinstance(gradient, tf.IndexedSlices):
            return tf.IndexedSlices(
                gradient.values / factor, gradient.indices, gradient.dense_shape
            )
        return gradient / factor

    def combine(
        self,
        call: Call,
        names: Sequence[str],
        gradients: Sequence[Any],
        variables: Sequence[Any],
        options: ExchangeOptions,
    ) -> list[Any]:
        return combine_named(call, names, gradients, options)

    @contextlib.contextmanager
    def typed_errors(self) -> Iterator[None]:
        try:
            yield
        except tf.errors.OpError as error:
            found = error_of(error)
            if found is None or found is error:
                raise
            raise tensorflow_error(found) from error


BACKEND = _TensorFlow()
