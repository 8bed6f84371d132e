"""Tensors as contiguous host memory: what the session works on."""

from __future__ import annotations

import torch

from byteps.common.errors import InvalidArgumentError
from byteps.common.types import DataType

_DATA_TYPES = {
    torch.float32: DataType.FLOAT32,
    torch.float64: DataType.FLOAT64,
    torch.float16: DataType.FLOAT16,
    torch.bfloat16: DataType.BFLOAT16,
    torch.int8: DataType.INT8,
    torch.int16: DataType.INT16,
    torch.int32: DataType.INT32,
    torch.int64: DataType.INT64,
    torch.uint8: DataType.UINT8,
    torch.bool: DataType.BOOL,
}


def check_tensor(tensor: torch.Tensor) -> DataType:
    """Return the tensor's data type, or raise InvalidArgumentError if it cannot be exchanged."""
    dtype = _DATA_TYPES.get(tensor.dtype)
    if dtype is None or tensor.layout != torch.strided:
        raise InvalidArgumentError(f"Tensor type {tensor.type()} is not supported.")
    if not tensor.is_contiguous():
        raise InvalidArgumentError("Tensor is required to be contiguous.")
    return dtype


def host_memory(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in host memory with the same values: the same memory where possible.

    A copy is made of tensors on a device, and of lazily negated ones, whose bytes are not their
    values.
    """
    return tensor.detach().resolve_neg().to("cpu")
