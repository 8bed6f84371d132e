"""Tensors as contiguous host memory: what the session works on."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.autograd.graph import increment_version

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


def data_type(tensor: torch.Tensor) -> DataType:
    """Return the tensor's data type, or raise InvalidArgumentError if it cannot be exchanged."""
    if not isinstance(tensor, torch.Tensor):
        raise InvalidArgumentError(
            f"operations take tensors of torch; this is a {type(tensor).__name__}. Use "
            "torch.as_tensor, or allgather_object and broadcast_object for other objects."
        )
    dtype = _DATA_TYPES.get(tensor.dtype)
    if dtype is None:
        raise InvalidArgumentError(
            f"Tensor type {_type_of(tensor)} is not supported. "
            f"Types: {', '.join(str(known).removeprefix('torch.') for known in _DATA_TYPES)}."
        )
    if tensor.is_nested:
        raise InvalidArgumentError(
            f"Tensor type nested {tensor.dtype} is not supported. Exchange its parts, or "
            "to_padded_tensor() first."
        )
    if tensor.layout != torch.strided:
        raise InvalidArgumentError(
            f"Tensor type {_type_of(tensor)} is not supported. Sparse tensors go through "
            "sparse_allreduce_async, which takes COO ones, or to_dense() first."
        )
    if tensor.is_meta:
        raise InvalidArgumentError(
            "a tensor on the meta device has no values that could be exchanged. Give it memory "
            "first, as to_empty(device=...) of a module does."
        )
    return dtype


def _type_of(tensor: torch.Tensor) -> str:
    try:
        return tensor.type()
    except RuntimeError:  # torch has no word for it, as for sparse CSR
        return f"{tensor.dtype} of layout {tensor.layout}"


def check_one_device(tensors: Sequence[torch.Tensor]) -> torch.device:
    """Return the device of all tensors of a group; raise for what cannot be exchanged."""
    for tensor in tensors:
        data_type(tensor)
    devices = {str(tensor.device): tensor.device for tensor in tensors}
    if len(devices) > 1:
        raise InvalidArgumentError(
            f"the tensors of a group must be on one device; these are on {', '.join(devices)}."
        )
    return next(iter(devices.values()), torch.device("cpu"))


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether the tensor's memory is its values, in order, where the session reaches it."""
    return tensor.is_cpu and tensor.is_contiguous() and not tensor.is_neg()


def host_memory(tensor: torch.Tensor) -> torch.Tensor:
    """Return contiguous host memory with the tensor's values: its own where possible.

    A copy is made of tensors on a device, of those that are not contiguous, and of lazily negated
    ones, whose bytes are not their values.
    """
    if is_plain(tensor):
        return tensor
    return tensor.detach().resolve_neg().to("cpu").contiguous()


def bytes_of(tensor: torch.Tensor) -> bytearray:
    """Return the values of a vector of uint8. Works where there is no numpy."""
    copied = bytearray(len(tensor))
    if copied:
        torch.frombuffer(copied, dtype=torch.uint8).copy_(tensor)
    return copied


def check_writable(tensor: torch.Tensor) -> None:
    """Refuse tensors whose elements share memory: a result cannot be written to them."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    if any(stride == 0 and length > 1 for length, stride in pairs):
        raise InvalidArgumentError(
            "a tensor that was expanded cannot be changed in place: several of its elements are "
            "one. Use the form that returns a new tensor, or clone() it first."
        )


def tell_of_change(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor, whose memory was written: autograd refuses what was computed with the old
    values, as after torch's own operations in place."""
    if not tensor.is_inference():
        increment_version(tensor)
    return tensor


def check_scalable(dtype: torch.dtype, factors: tuple[float, float]) -> None:
    """Refuse factors other than one, before and after, for what has no multiples."""
    if dtype == torch.bool and factors != (1.0, 1.0):
        raise InvalidArgumentError(
            f"a bool tensor cannot be scaled: prescale_factor is {factors[0]}, postscale_factor is "
            f"{factors[1]}."
        )


def scaled(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    """Return tensor * factor in the tensor's type, which is not bool. Integers are cut toward
    zero."""
    with torch.no_grad():
        if tensor.is_floating_point():
            return tensor.detach() * factor
        return (tensor.detach().to(torch.float64) * factor).to(tensor.dtype)
