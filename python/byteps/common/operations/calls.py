"""The calls of users' operations, one function for each family."""

from __future__ import annotations

from byteps.common.operations.call import Call, checked_root
from byteps.common.operations.reduction import ReduceOp, operation_of
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation


def push_pull_call(average: bool, name: str | None, priority: int) -> Call:
    """Return the call of a push_pull, which rounds averages of integers down."""
    operation = Operation.AVERAGE if average else Operation.SUM
    return Call(operation, name, priority=priority)


def reduce_call(
    op: ReduceOp,
    name: str | None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Call:
    """Return the call of an allreduce, which cuts averages of integers toward zero."""
    return Call(
        operation_of(op),
        name,
        process_set=process_set,
        prescale=float(prescale_factor),
        postscale=float(postscale_factor),
        toward_zero=True,
    )


def scatter_call(
    op: ReduceOp,
    name: str | None,
    process_set: ProcessSet,
    prescale_factor: float,
    postscale_factor: float,
) -> Call:
    """Return the call of a reducescatter."""
    return Call(
        Operation.REDUCESCATTER,
        name,
        process_set=process_set,
        prescale=float(prescale_factor),
        postscale=float(postscale_factor),
        combine=operation_of(op),
    )


def broadcast_call(
    root_rank: int, name: str | None, process_set: ProcessSet = global_process_set
) -> Call:
    """Return the call of a broadcast."""
    root = checked_root(root_rank, process_set)
    return Call(Operation.BROADCAST, name, root, process_set=process_set)


def gather_call(name: str | None, process_set: ProcessSet = global_process_set) -> Call:
    """Return the call of an allgather."""
    return Call(Operation.ALLGATHER, name, process_set=process_set)
