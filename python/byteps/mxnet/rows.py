"""Rows that ranks give each other: broadcast, which the engine does, and those that wait for their
result, because only the other ranks know its shape: allgather, alltoall and reducescatter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from mxnet import nd

from byteps.common.errors import InvalidArgumentError
from byteps.common.operations.call import Call
from byteps.common.operations.calls import broadcast_call, gather_call, scatter_call
from byteps.common.operations.reduction import Average, ReduceOp, Sum
from byteps.common.operations.splits import check_has_rows, checked_splits
from byteps.common.session import default
from byteps.common.session.pending import Handle
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation
from byteps.mxnet.arrays import Array, classic, exchange, exchange_in_place, like
from byteps.mxnet.errors import raises_mxnet_errors
from byteps.numpy.arrays import (
    start_alltoall,
    start_gather,
    start_group_gather,
    start_group_scatter,
    start_scatter,
)


def _of_numpy(array: Any) -> Array:
    return nd.array(array, dtype=array.dtype)


def _result(handle: Handle[Any]) -> Any:
    return default.pending().synchronize(handle)


@raises_mxnet_errors
def allgather(
    tensor: Array,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """Return the arrays of all ranks, joined along the first dimension in rank order.

    The first dimension may differ between ranks; an array without dimensions counts as one row.

    Example::

        predictions = bps.allgather(predictions, name="predictions")
    """
    call = replace(gather_call(name, process_set), priority=priority)
    rows = _result(start_gather(call, classic(tensor).asnumpy()))
    return like(_of_numpy(rows), tensor)


@raises_mxnet_errors
def grouped_allgather(
    tensors: Sequence[Array],
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> list[Array]:
    """Return all ranks' rows of several arrays, all or none; see `allgather`.

    Example::

        inputs, labels = bps.grouped_allgather([inputs, labels], name="batch")
    """
    call = replace(gather_call(name, process_set), priority=priority)
    tensors = list(tensors)
    values = [classic(tensor).asnumpy() for tensor in tensors]
    results = _result(start_group_gather(call, values))
    return [like(_of_numpy(rows), tensor) for rows, tensor in zip(results, tensors, strict=True)]


@raises_mxnet_errors
def broadcast(
    tensor: Array,
    root_rank: int,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """Return the root's array, bit for bit, at once: who reads it waits for it. With a process set,
    `root_rank` is still the rank in the whole job.

    Example::

        weights = bps.broadcast(weights, root_rank=0, name="weights")
    """
    call = replace(broadcast_call(root_rank, name, process_set), priority=priority)
    return like(exchange(call, classic(tensor)), tensor)


@raises_mxnet_errors
def broadcast_(
    tensor: Array,
    root_rank: int,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """Overwrite an array with the root's, bit for bit, and return it, at once; see `broadcast`.

    Example::

        bps.broadcast_(weights, root_rank=0, name="weights")
    """
    call = replace(broadcast_call(root_rank, name, process_set), priority=priority)
    exchange_in_place(call, classic(tensor))
    return tensor


@raises_mxnet_errors
def alltoall(
    tensor: Array,
    splits: Any = None,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> Array | tuple[Array, Array]:
    """Give each rank some rows of an array, and return those that came, in the order of ranks.

    `splits`, an array of int32 or a list, says how many rows each rank gets; then the number of
    rows from each rank is returned as well. Without it all get equally many, and only the rows are
    returned.

    Example::

        rows = bps.alltoall(array, name="rows")
        rows, counts = bps.alltoall(array, splits=[1, 3], name="more rows")
    """
    array = classic(tensor)
    check_has_rows(array.shape)
    call = Call(Operation.ALLTOALL, name, priority=priority, process_set=process_set)
    call.splits = checked_splits(_numbers(splits), process_set.size(), len(array))
    rows, counts = _result(start_alltoall(call, array.asnumpy()))
    received = like(_of_numpy(rows), tensor)
    return received if splits is None else (received, _of_numpy(counts))


def _numbers(splits: Any) -> list[int] | None:
    if splits is None:
        return None
    values = splits.asnumpy() if isinstance(splits, nd.NDArray) else np.asarray(splits)
    is_typed = isinstance(splits, (nd.NDArray, np.ndarray))
    if values.ndim != 1 or values.dtype.kind not in "iu" or (is_typed and values.itemsize != 4):
        raise InvalidArgumentError(
            f"splits has the shape {values.shape} and the type {values.dtype}; it must be a list, "
            "or an array of int32 with one dimension."
        )
    return [int(number) for number in values]


@raises_mxnet_errors
def reducescatter(
    tensor: Array,
    op: ReduceOp = Average,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Array:
    """Return this rank's rows of the combination of all ranks' arrays.

    Rows are dealt in the order of ranks, as evenly as possible: the first ranks get one more if
    they must.

    Example::

        mine = bps.reducescatter(array, op=bps.Sum, name="rows")
    """
    call = _scatter_call(op, name, priority, process_set, prescale_factor, postscale_factor)
    rows = _result(start_scatter(call, classic(tensor).asnumpy()))
    return like(_of_numpy(rows), tensor)


@raises_mxnet_errors
def grouped_reducescatter(
    tensors: Sequence[Array],
    op: ReduceOp = Average,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Array]:
    """Return this rank's rows of the combinations of several arrays, all or none.

    Example::

        parts = bps.grouped_reducescatter([weights, biases], name="parts")
    """
    call = _scatter_call(op, name, priority, process_set, prescale_factor, postscale_factor)
    tensors = list(tensors)
    parts = _result(start_group_scatter(call, [classic(t).asnumpy() for t in tensors]))
    return [like(_of_numpy(rows), tensor) for rows, tensor in zip(parts, tensors, strict=True)]


def _scatter_call(
    op: ReduceOp,
    name: str | None,
    priority: int,
    process_set: ProcessSet,
    prescale_factor: float,
    postscale_factor: float,
) -> Call:
    if op not in (Average, Sum):  # as in Horovod
        raise AssertionError(f"op is {op!r}; reducescatter combines with Average or Sum.")
    call = scatter_call(op, name, process_set, prescale_factor, postscale_factor)
    return replace(call, priority=priority)
