"""Compression of gradients: a cast before and after the exchange."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from byteps.common.gradients.compression import Compressor, NoneCompressor

__all__ = ["BF16Compressor", "Compression", "Compressor", "FP16Compressor", "NoneCompressor"]


class _CastCompressor:
    """Sends floating-point arrays as a smaller type."""

    wire_type: Any

    @classmethod
    def compress(cls, tensor: Any) -> tuple[Any, object]:
        """Return the array in the smaller type if it is a floating-point array."""
        if not jnp.issubdtype(tensor.dtype, jnp.floating):
            return tensor, None
        return tensor.astype(cls.wire_type), tensor.dtype

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        """Return the array in the type it had."""
        return tensor if context is None else tensor.astype(context)


class FP16Compressor(_CastCompressor):
    """Sends floating-point arrays as float16."""

    wire_type = jnp.float16


class BF16Compressor(_CastCompressor):
    """Sends floating-point arrays as bfloat16: the range of float32 with 8 bits of precision."""

    wire_type = jnp.bfloat16


class Compression:
    """The compressors to choose from; any object with `compress` and `decompress` will do too.

    Example::

        optimizer = bps.DistributedOptimizer(optimizer, compression=bps.Compression.bf16)
    """

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
