"""Rows that ranks give each other: allgather, broadcast, alltoall and reducescatter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from byteps.common.gradients.compression import Compressor, check_compression
from byteps.common.operations.call import Call
from byteps.common.operations.calls import broadcast_call, gather_call, scatter_call
from byteps.common.operations.reduction import Average, ReduceOp
from byteps.common.operations.splits import check_has_rows, checked_splits
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation
from byteps.tensorflow import compiled, eager, exchange
from byteps.tensorflow.agreement import after, agreed, described
from byteps.tensorflow.compression import Compression
from byteps.tensorflow.errors import with_tensorflow_errors
from byteps.tensorflow.exchange import as_tensor, calls_of_group, named, same


@with_tensorflow_errors
def allgather(
    tensor: Any,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the tensors of all ranks, joined along the first dimension in rank order.

    The first dimension may differ between ranks. A tensor without dimensions counts as one row.

    Example::

        predictions = bps.allgather(predictions, name="predictions")
    """
    return _allgather(gather_call(name, process_set), tensor, ignore_name_scope)


def _allgather(call: Call, value: Any, ignore_name_scope: bool) -> Any:
    tensor = as_tensor(value, call)
    call.name = named(call.name, "Allgather", tensor, ignore_name_scope)
    if tensor.shape.rank == 0:
        tensor = tf.reshape(tensor, [1])
    return exchange.rows(call, tensor)[0]


@with_tensorflow_errors
def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Do `allgather` with several tensors.

    Example::

        inputs, labels = bps.grouped_allgather([inputs, labels], name="batch")
    """
    base = gather_call(name, process_set)
    values = [as_tensor(tensor, base) for tensor in tensors]
    calls = _calls_of_group(base, len(values))
    with _after_agreement(base, "GroupedAllgather", values, ignore_name_scope):
        return [
            _allgather(call, value, ignore_name_scope)
            for call, value in zip(calls, values, strict=True)
        ]


def _calls_of_group(base: Call, count: int) -> list[Call]:
    """Return the calls of the members: without names if the group has none."""
    return calls_of_group(base, count) if base.name else [replace(base) for _ in range(count)]


def _after_agreement(base: Call, kind: str, values: Sequence[Any], ignore_scope: bool) -> Any:
    """Return a context: what is made in it comes after all ranks have the same tensors."""
    if not values:
        return after(None)
    compiled.refuse(f"an exchange of rows ({base.operation.name.lower()})")
    call = replace(base, name=named(base.name, kind, values[0], ignore_scope))
    has_shapes = tf.executing_eagerly()
    return after(agreed(call, [described(one, has_shapes, has_rows=True) for one in values]))


@with_tensorflow_errors
def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
    scope: str = "",
    is_variable: bool = True,
) -> Any:
    """Return the root's tensor, bit for bit. With a process set, `root_rank` is still the rank in
    the whole job.

    `scope` and `is_variable` are accepted for programs written for the original.

    Example::

        weights = bps.broadcast(weights, root_rank=0, name="weights")
    """
    del scope, is_variable
    call = broadcast_call(root_rank, name, process_set)
    sent = as_tensor(tensor, call)
    call.name = named(call.name, "Broadcast", sent, ignore_name_scope)
    return same([call], [sent])[0]


@with_tensorflow_errors
def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Give each rank some rows of a tensor, and return those that came, in the order of ranks.

    `splits` says how many rows each rank gets; then the number of rows from each rank is returned
    as well. Without it all get equally many, and only the rows are returned.

    Example::

        rows = bps.alltoall(tensor, name="rows")
        rows, counts = bps.alltoall(tensor, splits=[1, 3], name="more rows")
    """
    call = Call(Operation.ALLTOALL, name, process_set=process_set)
    sent = as_tensor(tensor, call)
    check_has_rows(sent.shape.as_list() if sent.shape.rank is not None else [0])
    given = None if splits is None else tf.convert_to_tensor(splits, tf.int32)
    if tf.executing_eagerly():
        numbers = None if given is None else eager.host_array(given).tolist()
        checked_splits(numbers, process_set.size(), sent.shape[0])
    call.name = named(call.name, "Alltoall", sent, ignore_name_scope)
    found, counts = exchange.rows(call, sent, given)
    return found if splits is None else (found, counts)


@with_tensorflow_errors
def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: Compressor | type[Compressor] = Compression.none,
    op: ReduceOp = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Return this rank's rows of the combination of all ranks' tensors.

    Rows are dealt in the order of ranks, as evenly as possible: the first ranks get one more if
    they must.

    Example::

        mine = bps.reducescatter(tensor, name="rows", op=bps.Sum)
    """
    del device_dense
    call = scatter_call(op, name, process_set, prescale_factor, postscale_factor)
    return _reducescatter(call, tensor, compression, ignore_name_scope)


def _reducescatter(
    call: Call,
    value: Any,
    compression: Compressor | type[Compressor],
    ignore_name_scope: bool = False,
) -> Any:
    check_compression(compression)
    sent, context = compression.compress(as_tensor(value, call))
    check_has_rows(sent.shape.as_list() if sent.shape.rank is not None else [0])
    call.name = named(call.name, "Reducescatter", sent, ignore_name_scope)
    return compression.decompress(exchange.rows(call, sent)[0], context)


@with_tensorflow_errors
def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: Compressor | type[Compressor] = Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
) -> list[Any]:
    """Do `reducescatter` with several tensors.

    Example::

        parts = bps.grouped_reducescatter([weights, biases], op=bps.Sum)
    """
    del device_dense
    call = scatter_call(op, name, process_set, prescale_factor, postscale_factor)
    values = [as_tensor(tensor, call) for tensor in tensors]
    with _after_agreement(call, "GroupedReducescatter", values, ignore_scope=False):
        return [
            _reducescatter(one, value, compression)
            for one, value in zip(_calls_of_group(call, len(values)), values, strict=True)
        ]
