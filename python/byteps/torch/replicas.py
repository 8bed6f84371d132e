"""Whether the ranks have equal weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import torch

from byteps.common.errors import InvalidArgumentError
from byteps.common.operations.replicas import compare, digest
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.torch.memory import host_memory

__all__ = ["check_replicas"]

Tensors: TypeAlias = torch.nn.Module | Mapping[str, Any] | Iterable[tuple[str, torch.Tensor]]


def check_replicas(
    model: Tensors,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Raise ReplicasDifferError on every rank unless all ranks have the same weights, bit for bit.

    The error names the first tensor that differs, and the ranks where it does. `model` is a module,
    whose parameters are compared (its buffers, such as the statistics of BatchNorm, may differ),
    or a dict such as `model.state_dict()`, or a list of (name, tensor). Each rank reads its weights
    once and sends 8 bytes for each tensor. All ranks must call it.

    Example::

        bps.check_replicas(model)
    """
    digests = [(key, tuple(t.shape), _digest(t)) for key, t in _named(model)]
    compare(digests, name or "model", process_set)


def _named(model: Tensors) -> list[tuple[str, torch.Tensor]]:
    pairs: Iterable[tuple[str, Any]]
    if isinstance(model, torch.nn.Module):
        pairs = model.named_parameters()
    elif isinstance(model, Mapping):
        pairs = model.items()
    else:
        pairs = list(model)
    try:
        named = [(str(key), value) for key, value in pairs if torch.is_tensor(value)]
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            "check_replicas takes a module, a dict such as model.state_dict(), or a list of "
            f"(name, tensor); this is a {type(model).__name__} of something else."
        ) from None
    for key, tensor in named:
        if tensor.layout != torch.strided:
            raise InvalidArgumentError(
                f"check_replicas: '{key}' is stored as {tensor.layout}; give to_dense() of it."
            )
    return named


def _digest(tensor: torch.Tensor) -> bytes:
    """Return a number that differs where a value or the type differs. Works without numpy."""
    memory = host_memory(tensor.detach())
    size = memory.numel() * memory.element_size()
    return digest(str(tensor.dtype), memory.data_ptr(), size)
