"""Rows that ranks give each other: allgather, broadcast, alltoall and reducescatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from byteps.common.operations.call import Call
from byteps.common.operations.calls import broadcast_call, gather_call, scatter_call
from byteps.common.operations.reduction import Average, ReduceOp
from byteps.common.operations.splits import check_has_rows, checked_splits
from byteps.common.session.pending import Handle
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation
from byteps.numpy.exchange import (
    as_given,
    start_alltoall,
    start_exchange,
    start_gather,
    start_group_gather,
    start_group_scatter,
    start_scatter,
    writable,
)
from byteps.numpy.handles import synchronize
from byteps.numpy.memory import Array


def allgather_async(
    tensor: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Handle[Array]:
    """Start to join the arrays of all ranks along the first dimension; return a handle.

    Example::

        rows = bps.synchronize(bps.allgather_async(array, name="rows"))
    """
    return start_gather(gather_call(name, process_set), as_given(tensor, Operation.ALLGATHER))


def allgather(
    tensor: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Array:
    """Return the arrays of all ranks, joined along the first dimension in rank order.

    The first dimension may differ between ranks; an array without dimensions counts as one row.

    Example::

        predictions = bps.allgather(predictions, name="predictions")
    """
    return synchronize(allgather_async(tensor, name, process_set))


def grouped_allgather_async(
    tensors: Sequence[Any], name: str | None = None, process_set: ProcessSet = global_process_set
) -> Handle[list[Array]]:
    """Start to gather several arrays as one operation; return one handle.

    Example::

        inputs, labels = bps.synchronize(bps.grouped_allgather_async([inputs, labels], name="b"))
    """
    return start_group_gather(
        gather_call(name, process_set),
        [as_given(tensor, Operation.ALLGATHER) for tensor in tensors],
    )


def grouped_allgather(
    tensors: Sequence[Any], name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Array]:
    """Return all ranks' rows of several arrays, all or none; see `allgather`.

    Example::

        inputs, labels = bps.grouped_allgather([inputs, labels], name="batch")
    """
    return synchronize(grouped_allgather_async(tensors, name, process_set))


def broadcast_async(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Array]:
    """Start to copy the root's array, bit for bit, into a new one; return a handle.

    Example::

        weights = bps.synchronize(bps.broadcast_async(weights, root_rank=0, name="weights"))
    """
    array = as_given(tensor, Operation.BROADCAST)
    return start_exchange(broadcast_call(root_rank, name, process_set), array)


def broadcast_async_(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Array]:
    """Start to overwrite an array with the root's, bit for bit; return a handle.

    Example::

        bps.synchronize(bps.broadcast_async_(weights, root_rank=0, name="weights"))
    """
    array = writable(tensor, Operation.BROADCAST)
    return start_exchange(broadcast_call(root_rank, name, process_set), array, in_place=True)


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """Return the root's array, bit for bit. With a process set, `root_rank` is still the rank in
    the whole job.

    Example::

        weights = bps.broadcast(weights, root_rank=0, name="weights")
    """
    return synchronize(broadcast_async(tensor, root_rank, name, process_set))


def broadcast_(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Overwrite an array with the root's, bit for bit, and return it.

    Example::

        bps.broadcast_(weights, root_rank=0, name="weights")
    """
    synchronize(broadcast_async_(tensor, root_rank, name, process_set))
    return tensor


def alltoall_async(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[tuple[Array, Array]]:
    """Start to give each rank some rows of an array; return a handle.

    With or without `splits`, the result is a pair: the rows, and the number of rows from each rank.

    Example::

        rows, counts = bps.synchronize(bps.alltoall_async(array, splits=[1, 3], name="rows"))
    """
    array = as_given(tensor, Operation.ALLTOALL)
    check_has_rows(array.shape)
    call = Call(Operation.ALLTOALL, name, process_set=process_set)
    call.splits = checked_splits(splits, process_set.size(), array.shape[0])
    return start_alltoall(call, array)


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Array | tuple[Array, Array]:
    """Give each rank some rows of an array, and return those that came, in the order of ranks.

    `splits` says how many rows each rank gets; then the number of rows from each rank is returned
    as well. Without it all get equally many, and only the rows are returned.

    Example::

        rows = bps.alltoall(array, name="rows")
        rows, counts = bps.alltoall(array, splits=[1, 3], name="more rows")
    """
    received, counts = synchronize(alltoall_async(tensor, splits, name, process_set))
    return received if splits is None else (received, counts)


def reducescatter_async(
    tensor: Any,
    name: str | None = None,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[Array]:
    """Start to combine an array over all ranks, each of which gets some rows; return a handle.

    Example::

        mine = bps.synchronize(bps.reducescatter_async(array, name="rows", op=bps.Sum))
    """
    call = scatter_call(op, name, process_set, prescale_factor, postscale_factor)
    return start_scatter(call, as_given(tensor))


def reducescatter(
    tensor: Any,
    name: str | None = None,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Array:
    """Return this rank's rows of the combination of all ranks' arrays.

    Rows are dealt in the order of ranks, as evenly as possible: the first ranks get one more if
    they must.

    Example::

        mine = bps.reducescatter(array, name="rows", op=bps.Sum)
    """
    options = (process_set, prescale_factor, postscale_factor)
    return synchronize(reducescatter_async(tensor, name, op, *options))


def grouped_reducescatter_async(
    tensors: Sequence[Any],
    name: str | None = None,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[list[Array]]:
    """Start the reducescatter of several arrays, all or none; return one handle.

    Example::

        parts = bps.synchronize(bps.grouped_reducescatter_async(arrays, name="parts"))
    """
    call = scatter_call(op, name, process_set, prescale_factor, postscale_factor)
    return start_group_scatter(call, [as_given(tensor) for tensor in tensors])


def grouped_reducescatter(
    tensors: Sequence[Any],
    name: str | None = None,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Array]:
    """Return this rank's rows of the combinations of several arrays, all or none.

    Example::

        parts = bps.grouped_reducescatter([weights, biases], name="parts")
    """
    options = (process_set, prescale_factor, postscale_factor)
    return synchronize(grouped_reducescatter_async(tensors, name, op, *options))
