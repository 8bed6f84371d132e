"""Compression of gradients: a cast before and after the exchange."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from byteps.common.gradients.compression import Compressor, NoneCompressor

__all__ = ["BF16Compressor", "Compression", "Compressor", "FP16Compressor", "NoneCompressor"]


class _CastCompressor:
    """Sends floating-point tensors as a smaller type."""

    wire_type: Any

    @classmethod
    def compress(cls, tensor: Any) -> tuple[Any, object]:
        """Return the tensor in the smaller type if it is a floating-point tensor."""
        if not tensor.dtype.is_floating:
            return tensor, None
        return tf.cast(tensor, cls.wire_type), tensor.dtype

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        """Return the tensor in the type it had."""
        return tensor if context is None else tf.cast(tensor, context)


class FP16Compressor(_CastCompressor):
    """Sends floating-point tensors as float16."""

    wire_type = tf.float16


class BF16Compressor(_CastCompressor):
    """Sends floating-point tensors as bfloat16: the range of float32 with 8 bits of precision."""

    wire_type = tf.bfloat16


class Compression:
    """The compressors to choose from; any object with `compress` and `decompress` will do too.

    Example::

        tape = bps.DistributedGradientTape(tape, compression=bps.Compression.fp16)
    """

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
