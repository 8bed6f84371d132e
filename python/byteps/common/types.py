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
