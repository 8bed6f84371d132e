"""How ranks' tensors are combined, as users say it."""

from __future__ import annotations

import warnings
from enum import Enum

from byteps.common.types import Operation


class ReduceOp(Enum):
    """How an operation combines the ranks' tensors; also there as `bps.Average`, `bps.Sum`, ...

    Example::

        bps.allreduce(tensor, name="largest", op=bps.ReduceOp.MAX)
    """

    AVERAGE = Operation.AVERAGE
    SUM = Operation.SUM
    MIN = Operation.MIN
    MAX = Operation.MAX
    PRODUCT = Operation.PRODUCT
    ADASUM = "adasum"


Average = ReduceOp.AVERAGE
Sum = ReduceOp.SUM
Min = ReduceOp.MIN
Max = ReduceOp.MAX
Product = ReduceOp.PRODUCT
Adasum = ReduceOp.ADASUM


def operation_of(op: ReduceOp) -> Operation:
    """Return what the session calls `op`; raise for what it cannot do."""
    if not isinstance(op, ReduceOp):
        raise ValueError(
            f"op is {op!r}; it must be one of Average, Sum, Min, Max and Product of this module."
        )
    if op is Adasum:
        raise NotImplementedError(
            "Adasum is not supported: it compares the contributions of pairs of ranks, and servers "
            "only add contributions up. Use op=Average."
        )
    return Operation(op.value)


def choose_op(average: bool | None, op: ReduceOp | None) -> ReduceOp:
    """Return the op that the arguments of an allreduce mean: Average without any."""
    if average is None:
        return Average if op is None else op
    if op is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    warnings.warn(
        "Parameter `average` has been replaced with `op`: use op=Average or op=Sum.",
        DeprecationWarning,
        stacklevel=3,
    )
    return Average if average else Sum
