"""What the tensors and objects of a case contain: on each rank something else, from the seed.

Arrays are those of numpy. It has no bfloat16: such elements are held as their bits, in uint16.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from random_collectives.cases import COMPLEX, FLOATS, Tensor

Array: TypeAlias = np.ndarray

HELD_AS = {"bfloat16": np.dtype(np.uint16)}
_BITS = {"float16": np.uint16, "bfloat16": np.uint16, "float32": np.uint32, "float64": np.uint64}


def held_as(dtype: str) -> np.dtype:
    """Return numpy's type of the arrays that hold elements of a type."""
    return HELD_AS.get(dtype) or np.dtype(dtype)


def widened(array: Array, dtype: str) -> Array:
    """Return floats of two bytes as float32, all others as they are."""
    if dtype == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32) if dtype == "float16" else array


def narrowed(array: Array, dtype: str) -> Array:
    """Return float32 as floats of two bytes, rounded to the nearest, halves to even."""
    if dtype == "float16":
        with np.errstate(over="ignore"):
            return array.astype(np.float16)
    if dtype != "bfloat16":
        return array
    bits = np.array(array, np.float32, order="C").view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(array), 0x7FC0, rounded).astype(np.uint16)


def values_of(path: tuple[int, ...], tensor: Tensor, place: int, op: str) -> Array:
    """Return a tensor's values at a place. `path` is seed, case, call, and place in a group."""
    dice = np.random.default_rng([*path, place])
    shape, dtype = tensor.shapes[place], tensor.dtype
    count = int(np.prod(shape, dtype=np.int64))
    values = _flat(dice, count, dtype, tensor.values, op)
    return values.reshape(shape)


def _flat(dice: np.random.Generator, count: int, dtype: str, values: str, op: str) -> Array:
    if dtype == "bool":
        return dice.random(count) < 0.5
    if dtype in COMPLEX:
        parts = dice.integers(-8, 9, (2, count)).astype(np.float64)
        return (parts[0] + 1j * parts[1]).astype(dtype)
    if values == "wild":
        return _wild(dice, count, dtype, op)
    if values == "random" and dtype in FLOATS:
        # Numbers of very different sizes: the order of a sum is seen in its last bits.
        numbers = dice.normal(size=count) * 10.0 ** dice.integers(-2, 3, count)
        kind = np.float64 if dtype == "float64" else np.float32
        return narrowed(numbers.astype(kind), dtype)
    return _whole(dice, count, dtype, {"few": 3}.get(values, 8), op)


def _whole(dice: np.random.Generator, count: int, dtype: str, largest: int, op: str) -> Array:
    """Return small whole numbers: every float has them and their sums exactly."""
    if op == "product":
        largest = 2
    least = 0 if dtype.startswith("u") else -largest
    numbers = dice.integers(least, largest + 1, count)
    if dtype in FLOATS:
        wide = numbers.astype(np.float64 if dtype == "float64" else np.float32)
        return narrowed(wide, dtype)
    return numbers.astype(dtype)


def _wild(dice: np.random.Generator, count: int, dtype: str, op: str) -> Array:
    """Return all bits that there are; of floats many infinities, NaNs and zeros of both signs."""
    if dtype not in FLOATS:
        info = np.iinfo(dtype)
        least, largest = int(info.min), int(info.max)
        if op == "average" and dtype == "int64":
            # A sum of int64 is all that an average of them may need.
            least, largest = least // 64, largest // 64
        return dice.integers(least, largest, count, dtype=dtype, endpoint=True)
    kind = _BITS[dtype]
    bits = dice.integers(0, np.iinfo(kind).max, count, dtype=kind, endpoint=True)
    special = narrowed(
        np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0], _wide_type(dtype)), dtype
    )
    chosen = dice.choice(special, count)
    held = bits.view(held_as(dtype))
    result: Array = np.where(dice.random(count) < 0.5, held, chosen)
    return result


def _wide_type(dtype: str) -> type:
    return np.float64 if dtype == "float64" else np.float32


def object_of(path: tuple[int, ...], rank: int) -> object:
    """Return the object that a rank gives."""
    dice = np.random.default_rng([*path, rank])
    size = int(dice.choice([0, 1, 7, 1000, 70_000]))
    parts: list[object] = [
        None,
        int(dice.integers(-(2**62), 2**62)),
        float(dice.normal()),
        dice.bytes(size),
        {"rank": rank, "ü": [1, (2, "three")]},
        "層" * size,
    ]
    return [parts[i] for i in dice.permutation(len(parts))[: int(dice.integers(0, 7))]]
