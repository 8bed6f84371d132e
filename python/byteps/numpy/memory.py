"""Where the memory of results comes from, for every adapter whose tensors are seen as arrays.

Frameworks take an array's memory over without a copy only if it begins at a multiple of
`ALIGNMENT`, and their kernels rely on that: TensorFlow ends the process when it does not. The
memory of numpy's own arrays begins at multiples of 16 bytes. So every result is in a `new_array`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]

ALIGNMENT = 64


def new_array(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Return an aligned array, without values yet."""
    size_bytes = math.prod(shape) * dtype.itemsize
    memory: Array = np.empty(size_bytes + ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    # A slice without elements would begin where `memory` does.
    return np.ndarray(shape, dtype, memory, begin)


def is_aligned(array: Array) -> bool:
    """Return whether frameworks can take the array's memory over as it is."""
    return bool(array.flags.c_contiguous) and array.ctypes.data % ALIGNMENT == 0


def aligned_copy(array: Array) -> Array:
    """Return a new aligned array with the values."""
    copy = new_array(array.shape, array.dtype)
    copy[...] = array
    return copy


def aligned(array: Array) -> Array:
    """Return an aligned array with the values: the same one if it is aligned."""
    return array if is_aligned(array) else aligned_copy(array)
