"""The numbers of the C interface. A test holds them equal to include/byteps/byteps.h."""

from __future__ import annotations

from enum import IntEnum


class DataType(IntEnum):
    """The type of a tensor's elements."""

    FLOAT32 = 0
    FLOAT64 = 1
    FLOAT16 = 2
    BFLOAT16 = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    UINT8 = 8
    BOOL = 9


class Operation(IntEnum):
    """What is done with the ranks' tensors."""

    SUM = 0
    AVERAGE = 1
    MIN = 2
    MAX = 3
    PRODUCT = 4
    BROADCAST = 5
    ALLGATHER = 6
    BARRIER = 7
    REDUCESCATTER = 8
    ALLTOALL = 9
    JOIN = 10


# Types that servers cannot add up. Where bytes only move, they travel as others of the same size.
_MOVED = {
    "uint16": DataType.INT16,
    "uint32": DataType.INT32,
    "uint64": DataType.INT64,
}
_MOVES = (Operation.BROADCAST, Operation.ALLGATHER, Operation.ALLTOALL)


def moved_as(name: str, operation: Operation) -> DataType | None:
    """Return the type as which elements of a type `name` travel in an operation; None if they
    travel as they are, or not at all."""
    return _MOVED.get(name) if operation in _MOVES else None


def moved_detail(name: str) -> str:
    """Return what ranks compare beside the type as which elements of a type `name` travel."""
    return f"values of {name}"
