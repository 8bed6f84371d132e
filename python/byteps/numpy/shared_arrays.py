"""Arrays in memory that the other ranks of the machine read where it lies."""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from byteps.common.errors import InvalidArgumentError
from byteps.common.session import default
from byteps.numpy.arrays import data_type_of
from byteps.numpy.memory import Array


def empty_shared(shape: int | Sequence[int], dtype: Any = np.float64) -> Array:
    """Return an array, whose values mean nothing yet, in memory that the machine's ranks share.

    The ranks sum such arrays where they lie: nothing is copied in before. It is a matter of speed
    only. Every operation takes these arrays together with others, and a rank may have them where
    another has none. Where no ranks share memory the array has memory of its own.

    The memory is given back when the last array with it is gone, also after `shutdown`. Arrays of
    an earlier session work in the next one as all others do.

    Example::

        array = bps.empty_shared((1024, 1024), np.float32)
        np.multiply(gradient, 0.5, out=array)
        bps.push_pull_inplace(array, name="gradient")
    """
    kind = np.dtype(dtype)
    data_type_of(kind)
    sizes = _sizes(shape)
    if any(length < 0 for length in sizes):
        raise InvalidArgumentError(f"an array cannot have the shape {list(sizes)}.")
    count = math.prod(sizes)
    if count == 0:
        return np.empty(sizes, kind)
    memory = default.current().shared_memory(count * kind.itemsize)
    return np.frombuffer(memory.buffer(), kind, count).reshape(sizes)


def _sizes(shape: Any) -> tuple[int, ...]:
    """Return a shape as numbers of Python; one length may stand by itself."""
    with contextlib.suppress(TypeError):
        return (operator.index(shape),)
    try:
        return tuple(operator.index(length) for length in shape)
    except TypeError:
        raise InvalidArgumentError(
            f"shape is {shape!r}; give one whole number or several."
        ) from None
