"""Tensors as contiguous memory that the session reaches: on their device, or in the host."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence

import torch
from torch.autograd.graph import increment_version

from byteps.common.errors import InvalidArgumentError
from byteps.common.operations import groups
from byteps.common.operations.splits import check_has_rows
from byteps.common.types import DataType, Operation
from byteps.torch.devices import is_reached, synchronize

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

# Sums and products of these are those of the signed type, bit for bit. Old torch lacks them.
_SIGNED = {"uint16": torch.int16, "uint32": torch.int32, "uint64": torch.int64}
_AS_SIGNED = {getattr(torch, name): kind for name, kind in _SIGNED.items() if hasattr(torch, name)}


# From this size on a result asks for large pages, as arrays of numpy do.
_LARGE_BYTES = 4 << 20
_libc = ctypes.CDLL(None)
_HOST = torch.device("cpu")  # named, because torch may have another device by default


def new_memory(
    shape: Sequence[int], dtype: torch.dtype, device: torch.device = _HOST
) -> torch.Tensor:
    """Return a tensor for a result, in the host's memory unless another device is named.

    The memory of a large one is fresh each time. With pages of 4 KB the faults of its first use
    take longer than the exchange itself, so it asks the system for large pages.
    """
    tensor = torch.empty(shape, dtype=dtype, device=device)
    if tensor.is_cpu and tensor.nbytes >= _LARGE_BYTES:
        begin = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        length = tensor.data_ptr() + tensor.nbytes - begin
        # A wish: the system may not have large pages.
        _libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(length), mmap.MADV_HUGEPAGE)
    return tensor


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


def type_of_rows(tensor: torch.Tensor) -> DataType:
    """Return the data type of a tensor that has rows; raise for others."""
    dtype = data_type(tensor)
    check_has_rows(tensor.shape)
    return dtype


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


def is_in_order(tensor: torch.Tensor) -> bool:
    """Return whether the tensor's memory is its values, in order."""
    return tensor.is_contiguous() and not (tensor.is_neg() or tensor.is_conj())


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether the tensor's memory is its values, in order, in the host."""
    return tensor.is_cpu and is_in_order(tensor)


def reached_memory(tensor: torch.Tensor) -> torch.Tensor:
    """Return contiguous memory that the session reaches, with the tensor's values: on its device if
    possible, else in the host. Its own where possible."""
    if not is_reached(tensor):
        return host_memory(tensor)
    if is_in_order(tensor):
        return tensor
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def host_memory(tensor: torch.Tensor) -> torch.Tensor:
    """Return contiguous host memory with the tensor's values: its own where possible.

    A copy is made of tensors on a device, of those that are not contiguous, and of lazily negated
    or conjugated ones, whose bytes are not their values.
    """
    if is_plain(tensor):
        return tensor
    return tensor.detach().resolve_conj().resolve_neg().to("cpu").contiguous()


def own_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Return contiguous memory that the session reaches, with the tensor's values; nobody else has
    it."""
    memory = reached_memory(tensor.detach())
    return memory.clone() if memory.data_ptr() == tensor.data_ptr() else memory


def room_for(tensor: torch.Tensor) -> tuple[torch.Tensor, Callable[[], None]]:
    """Return memory that the session reaches, for a result, and what brings it into `tensor` in the
    end."""
    if not is_reached(tensor):
        return host_room_for(tensor)
    if is_in_order(tensor):
        return tensor.detach(), _nothing
    memory = new_memory(tensor.shape, tensor.dtype, tensor.device)
    return memory, lambda: bring(memory, tensor)


def host_room_for(tensor: torch.Tensor) -> tuple[torch.Tensor, Callable[[], None]]:
    """Do `room_for` with memory of the host, where results lie whose sizes nobody knows before."""
    if is_plain(tensor):
        return tensor.detach(), _nothing
    memory = new_memory(tensor.shape, tensor.dtype)
    return memory, lambda: bring(memory, tensor)


def _nothing() -> None:
    pass


def bring(memory: torch.Tensor, tensor: torch.Tensor) -> None:
    """Copy a result to where it belongs; complete when this returns, also on a device."""
    with torch.no_grad():
        tensor.detach().copy_(memory.view(tensor.shape))
    synchronize(tensor)


def as_bytes(memory: torch.Tensor) -> torch.Tensor:
    """Return contiguous memory as a row of bytes, which is the same memory."""
    flat = memory.detach().reshape(-1)
    # A single element may have any stride, and torch views it as bytes only with a stride of one.
    return flat.as_strided((flat.numel(),), (1,)).view(torch.uint8)


def as_numbers(memory: torch.Tensor, operation: Operation) -> tuple[torch.Tensor, DataType]:
    """Return contiguous memory as a type that `operation` can calculate with, and that type."""
    if memory.is_complex() and operation in (Operation.SUM, Operation.AVERAGE):
        memory = torch.view_as_real(memory)
    signed = _AS_SIGNED.get(memory.dtype)
    if signed is not None and operation in (Operation.SUM, Operation.PRODUCT):
        memory = memory.view(signed)
    return memory, data_type(memory)


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


def type_name(tensor: torch.Tensor) -> str:
    """Return the tensor's type as users write it, without `torch.`."""
    return str(tensor.dtype).removeprefix("torch.")


def describe_tensors(tensors: Sequence[torch.Tensor]) -> str:
    """Return how many tensors of which shapes and types a group has, in words."""
    return groups.describe_tensors([(type_name(t), t.shape) for t in tensors])
