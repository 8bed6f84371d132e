"""Whether the ranks have equal weights."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import torch

from byteps.common import default
from byteps.common.errors import InvalidArgumentError, ReplicasDifferError
from byteps.common.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation
from byteps.torch.gather import start_gather
from byteps.torch.memory import host_memory
from byteps.torch.submit import Call

__all__ = ["check_replicas"]

_DIGEST_BYTES = 8

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
    named = _named(model)
    names = ", ".join(f"{key} {tuple(tensor.shape)}" for key, tensor in named)
    own = b"".join(_digest(tensor) for _, tensor in named)
    rows = torch.frombuffer(bytearray(own or bytes(1)), dtype=torch.uint8)[None]
    call = Call(
        Operation.ALLGATHER,
        f"check_replicas.{name or 'model'}",
        process_set=process_set,
        detail=f"check_replicas of {len(named)} tensors: {names}",
    )
    received = default.pending().synchronize(start_gather(call, rows, lambda *all_of: all_of))
    joined, _, ranks = cast("tuple[torch.Tensor, list[int], list[int]]", received)
    for number, (key, _) in enumerate(named):
        begin = number * _DIGEST_BYTES
        digests = [bytes(row[begin : begin + _DIGEST_BYTES].tolist()) for row in joined]
        if any(digest != digests[0] for digest in digests):
            raise ReplicasDifferError(_difference(key, ranks, digests))


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
    digest = hashlib.blake2b(str(tensor.dtype).encode(), digest_size=_DIGEST_BYTES)
    size = memory.numel() * memory.element_size()
    if size:
        digest.update(memoryview((ctypes.c_char * size).from_address(memory.data_ptr())))
    return digest.digest()


def _difference(name: str, ranks: Sequence[int], digests: Sequence[bytes]) -> str:
    """Return what to say: most ranks are taken to be right, or the first ones."""
    usual = max(digests, key=lambda digest: (digests.count(digest), -digests.index(digest)))
    others = [rank for rank, digest in zip(ranks, digests, strict=True) if digest != usual]
    alike = [rank for rank, digest in zip(ranks, digests, strict=True) if digest == usual]
    return (
        f"the ranks' weights differ: '{name}' of {_list(others)} is not that of {_list(alike)}. "
        "Start all ranks from the same weights (broadcast_parameters), step on all of them alike, "
        "and change gradients on all of them alike"
    )


def _list(ranks: Sequence[int]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:8])
    more = f" and {len(ranks) - 8} more" if len(ranks) > 8 else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"
