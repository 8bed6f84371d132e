"""Tensors in memory that the other ranks of the machine read where it lies."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from byteps.common.errors import InvalidArgumentError
from byteps.common.session import default
from byteps.torch.memory import data_type


def empty_shared(
    *size: int | Sequence[int], dtype: torch.dtype | None = None, requires_grad: bool = False
) -> torch.Tensor:
    """Return a tensor, whose values mean nothing yet, in memory that the machine's ranks share.

    The ranks sum such tensors where they lie: nothing is copied in before. It is a matter of speed
    only. Every operation takes these tensors together with others, and a rank may have them where
    another has none. Where no ranks share memory the tensor has memory of its own.

    The memory is given back when the last tensor with it is gone, also after `shutdown`. Tensors
    of an earlier session work in the next one as all others do.

    Example::

        tensor = bps.empty_shared(1024, 1024)
        torch.mul(gradient, 0.5, out=tensor)
        bps.push_pull_inplace(tensor, name="gradient")
    """
    one = torch.empty((), dtype=dtype, device="cpu")
    data_type(one)
    shape = _shape_of(size)
    memory = default.current().shared_memory(math.prod(shape) * one.element_size())
    return _tensor_at(memory.buffer(), 0, shape, one.dtype).requires_grad_(requires_grad)


def _shape_of(size: tuple[int | Sequence[int], ...]) -> tuple[int, ...]:
    """Return the shape that torch.empty would read from these arguments."""
    if len(size) == 1:
        try:  # a number, also one of numpy
            operator.index(size[0])  # type: ignore[arg-type]
        except TypeError:
            size = tuple(size[0])  # type: ignore[arg-type]
    shape = torch.Size(size)  # type: ignore[arg-type]
    if any(length < 0 for length in shape):
        raise InvalidArgumentError(f"a tensor cannot have the shape {list(shape)}.")
    return tuple(shape)


def share_gradients(parameters: Iterable[torch.Tensor]) -> None:
    """Put the gradients of these parameters, behind one another, into shared tensors.

    Each parameter that is trained and in host memory gets a gradient there: the one that it has,
    or zeros. Backward adds to it, as long as nobody puts another in its place: clear gradients with
    `zero_grad(set_to_none=False)`. So a parameter that nobody used has a gradient of zeros, and not
    none. Gradients must be dense. Call it again after a further `init`.

    Example::

        bps.share_gradients(model.parameters())
        for inputs, labels in batches:
            optimizer.zero_grad(set_to_none=False)
            loss(model(inputs), labels).backward()
            optimizer.step()
    """
    trained = [p for p in dict.fromkeys(parameters) if p.requires_grad and p.is_cpu]
    begins = [0, *itertools.accumulate(_padded_bytes(parameter) for parameter in trained)]
    buffer = default.current().shared_memory(begins[-1]).buffer()
    for parameter, begin in zip(trained, begins, strict=False):
        # Not views of one tensor: a change of one gradient would count as one of all.
        place = _tensor_at(buffer, begin, parameter.shape, parameter.dtype)
        if parameter.grad is None:
            place.zero_()
        else:
            place.copy_(parameter.grad.detach())
        parameter.grad = place


def _tensor_at(buffer: Any, begin: int, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    count = math.prod(shape)
    if count == 0:
        return torch.empty(shape, dtype=dtype, device="cpu")
    return torch.frombuffer(buffer, dtype=dtype, count=count, offset=begin).view(shape)


_ALIGNMENT = 64  # bytes


def _padded_bytes(tensor: torch.Tensor) -> int:
    """Return how many bytes it takes up, so that the next one begins at a cache line."""
    return -(-tensor.numel() * tensor.element_size() // _ALIGNMENT) * _ALIGNMENT
