"""Tensors as the library sees them: contiguous host memory, typed where it is calculated with."""

from __future__ import annotations

from collections.abc import Callable

import torch

from byteps.common.types import DataType, Operation
from byteps.torch.memory import data_type

# Sums and products of these are those of the signed type, bit for bit. Old torch lacks them.
_SIGNED = {"uint16": torch.int16, "uint32": torch.int32, "uint64": torch.int64}
_AS_SIGNED = {getattr(torch, name): kind for name, kind in _SIGNED.items() if hasattr(torch, name)}
# Runs when the result is in host memory; returns the result.
Finish = Callable[[], object]
_LINEAR = (Operation.SUM, Operation.AVERAGE)


def source_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return contiguous host memory with the tensor's values: its own memory where possible."""
    return tensor.detach().resolve_conj().resolve_neg().to("cpu").contiguous()


def room_for(tensor: torch.Tensor) -> tuple[torch.Tensor, Callable[[], None]]:
    """Return host memory for a result, and what brings it into `tensor` in the end."""
    plain = tensor.detach()
    lazy = plain.is_neg() or plain.is_conj()
    if plain.device.type == "cpu" and plain.is_contiguous() and not lazy:
        return plain, _nothing
    memory = torch.empty(plain.shape, dtype=plain.dtype)
    return memory, lambda: bring(memory, tensor)


def bring(memory: torch.Tensor, tensor: torch.Tensor) -> None:
    """Copy a result to where it belongs; complete when this returns, also on a device."""
    with torch.no_grad():
        tensor.detach().copy_(memory.view(tensor.shape))
    if tensor.device.type == "cuda":
        torch.cuda.current_stream(tensor.device).synchronize()


def as_bytes(memory: torch.Tensor) -> torch.Tensor:
    """Return contiguous memory as a row of bytes."""
    return memory.reshape(-1).view(torch.uint8)


def as_numbers(memory: torch.Tensor, operation: Operation) -> tuple[torch.Tensor, DataType]:
    """Return contiguous memory as a type that `operation` can calculate with, and that type."""
    if memory.is_complex() and operation in _LINEAR:
        memory = torch.view_as_real(memory)
    signed = _AS_SIGNED.get(memory.dtype)
    if signed is not None and operation in (Operation.SUM, Operation.PRODUCT):
        memory = memory.view(signed)
    return memory, data_type(memory)


def _nothing() -> None:
    pass
