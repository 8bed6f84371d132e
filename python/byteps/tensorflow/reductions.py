"""Every rank gets the combination of all ranks' tensors: push_pull and the allreduce family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from byteps.common.errors import InvalidArgumentError
from byteps.common.gradients.compression import Compressor, check_compression
from byteps.common.operations.call import Call
from byteps.common.operations.calls import push_pull_call, reduce_call
from byteps.common.operations.reduction import Average, ReduceOp, choose_op
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.tensorflow.agreement import after, agreed, described, gate_of
from byteps.tensorflow.compression import Compression
from byteps.tensorflow.errors import with_tensorflow_errors
from byteps.tensorflow.exchange import as_tensor, calls_of_group, named, same
from byteps.tensorflow.sparse import allreduce_slices, as_slices, check_slices


@with_tensorflow_errors
def push_pull(
    tensor: Any,
    scope: str = "",
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor | type[Compressor] = Compression.none,
    op: ReduceOp | None = None,
    enable_async: bool = False,
    name: str | None = None,
    priority: int = 0,
) -> Any:
    """Return the average, or the sum, of all ranks' tensors. Averages of integers round down.

    In graphs, the name begins with `scope`. `device_dense` and `device_sparse` are accepted for
    programs written for the original: exchanges start in the memory of the host. `enable_async` is
    not supported.

    Example::

        mean = bps.push_pull(gradient, name="gradient")
    """
    del device_dense, device_sparse
    if enable_async:
        raise InvalidArgumentError("enable_async is not supported; leave it False.")
    chosen = choose_op(average, op)
    if isinstance(tensor, tf.IndexedSlices):
        return allreduce_slices(tensor, chosen, name, "PushPull")
    call = push_pull_call(chosen is Average, name, priority)
    if chosen is not Average:
        call.operation = reduce_call(chosen, None).operation
    if scope and name is None and not tf.executing_eagerly():
        with tf.name_scope(scope):
            return _exchange(call, tensor, "PushPull", compression)
    return _exchange(call, tensor, "PushPull", compression)


@with_tensorflow_errors
def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor | type[Compressor] = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> Any:
    """Return the combination of all ranks' tensors: their average, or what `op` says.

    The tensor is multiplied by `prescale_factor` before and by `postscale_factor` after it is
    combined. Averages of integers and scaled integers are cut toward zero. The rows of
    `tf.IndexedSlices` are gathered from all ranks instead. `average` is deprecated: use `op`.

    Example::

        largest = bps.allreduce(tensor, name="largest", op=bps.Max)
    """
    del device_dense, device_sparse
    chosen = choose_op(average, op)
    factors = (prescale_factor, postscale_factor)
    if isinstance(tensor, tf.IndexedSlices):
        return allreduce_slices(tensor, chosen, name, "Allreduce", factors, process_set)
    call = reduce_call(chosen, name, *factors, process_set)
    return _exchange(call, tensor, "Allreduce", compression, ignore_name_scope)


@with_tensorflow_errors
def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor | type[Compressor] = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> Any:
    """Do `allreduce` with several tensors, which start together and fail together.

    Example::

        loss, accuracy = bps.grouped_allreduce([loss, accuracy], name="metrics")
    """
    del device_dense, device_sparse
    values = list(tensors)
    if not values:
        return tensors
    check_compression(compression)
    chosen = choose_op(average, op)
    factors = (prescale_factor, postscale_factor)
    call = reduce_call(chosen, name, *factors, process_set)
    are_slices = [isinstance(one, tf.IndexedSlices) for one in values]
    if any(are_slices):
        check_slices(chosen, factors)
    values = [
        as_slices(one) if is_slices else as_tensor(one, call)
        for one, is_slices in zip(values, are_slices, strict=True)
    ]
    dense = [i for i, is_slices in enumerate(are_slices) if not is_slices]
    base = replace(call, name=named(name, "GroupedAllreduce", values[0], ignore_name_scope))
    has_shapes = tf.executing_eagerly()
    before = agreed(base, [described(one, has_shapes) for one in values])
    with after(before):
        for i, one in enumerate(values):
            if are_slices[i]:
                own = None if name is None else f"{name}_{i + 1}of{len(values)}"
                values[i] = allreduce_slices(one, chosen, own, "Allreduce", factors, process_set)
        found = _exchange_group(base, [values[i] for i in dense], compression, gate_of(before))
    for i, result in zip(dense, found, strict=True):
        values[i] = result
    return values


def _exchange_group(
    call: Call,
    tensors: Sequence[Any],
    compression: Compressor | type[Compressor],
    gate: Any,
) -> list[Any]:
    pairs = [compression.compress(tensor) for tensor in tensors]
    results = same(calls_of_group(call, len(pairs)), [sent for sent, _ in pairs], gate)
    return [
        compression.decompress(result, context)
        for result, (_, context) in zip(results, pairs, strict=True)
    ]


def _exchange(
    call: Call,
    value: Any,
    kind: str,
    compression: Compressor | type[Compressor],
    ignore_name_scope: bool = False,
) -> Any:
    check_compression(compression)
    sent, context = compression.compress(as_tensor(value, call))
    call.name = named(call.name, kind, sent, ignore_name_scope)
    (result,) = same([call], [sent])
    return compression.decompress(result, context)
