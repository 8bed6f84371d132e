"""Gradient compression inside the framework: a cast before and after the exchange."""

from __future__ import annotations

import torch

from byteps.common.gradients.compression import Compressor, NoneCompressor

__all__ = ["BF16Compressor", "Compression", "Compressor", "FP16Compressor", "NoneCompressor"]


class _CastCompressor:
    """Sends floating-point tensors as a smaller type."""

    wire_type: torch.dtype

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> tuple[torch.Tensor, object]:
        """Return the tensor in the smaller type if it is a floating-point tensor."""
        if not tensor.dtype.is_floating_point:
            return tensor, None
        return tensor.to(cls.wire_type), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, context: object) -> torch.Tensor:
        """Return the tensor in the type it had."""
        return tensor.to(context) if isinstance(context, torch.dtype) else tensor


class FP16Compressor(_CastCompressor):
    """Sends floating-point tensors as float16."""

    wire_type = torch.float16


class BF16Compressor(_CastCompressor):
    """Sends floating-point tensors as bfloat16: the range of float32 with 8 bits of precision."""

    wire_type = torch.bfloat16


class Compression:
    """The compressors to choose from; any object with `compress` and `decompress` will do too.

    Example::

        bps.DistributedOptimizer(optimizer, compression=bps.Compression.bf16)
    """

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
