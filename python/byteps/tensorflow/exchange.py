"""A call on tensors: eager or in a graph, with its gradient.

Everything else stands on three functions: `same`, whose results have the shapes of the tensors,
`rows`, and `number`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from byteps.common.errors import InvalidArgumentError
from byteps.common.operations.call import LINEAR, Call, detail_of
from byteps.common.programs.program_exchange import exchange_of
from byteps.common.session import default
from byteps.common.session.names import scope_of
from byteps.common.session.process_sets import ProcessSet, global_process_set, number_of
from byteps.common.types import DataType, Operation
from byteps.tensorflow import compiled, eager, graph, kernels
from byteps.tensorflow.errors import with_tensorflow_errors

_TYPES = [kind.name.lower() for kind in DataType]
# They only move bytes: types that a server cannot add up may go as others.
_MOVES = (Operation.BROADCAST, Operation.ALLGATHER, Operation.ALLTOALL)
_INSTEAD = {
    "RaggedTensor": "Exchange its flat_values and its nested_row_lengths().",
    "SparseTensor": "Exchange tf.sparse.to_dense(tensor), or its indices and its values.",
}


def as_tensor(value: Any, call: Call) -> Any:
    """Return the tensor of a value; raise if it cannot be exchanged."""
    try:
        tensor = tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        kind = type(value).__name__
        more = _INSTEAD.get(kind, "allgather_object and broadcast_object take any object.")
        raise InvalidArgumentError(f"a {kind} cannot be exchanged. {more}") from error
    if tensor.dtype.name not in _TYPES and not _goes_as_other(tensor, call):
        raise InvalidArgumentError(
            f"tensors of {tensor.dtype.name} cannot be exchanged. Types: {', '.join(_TYPES)}; "
            "allgather_object and broadcast_object take any object."
        )
    return tensor


def _goes_as_other(tensor: Any, call: Call) -> bool:
    return bool(tensor.dtype == tf.uint16) and call.operation in _MOVES


def named(name: str | None, kind: str, tensor: Any, ignore_scope: bool = False) -> str | None:
    """Return the name of a call. Eager calls without one are counted: None."""
    if tf.executing_eagerly():
        return name
    return graph.name_in_graph(name, kind, tensor, ignore_scope)


def calls_of_group(call: Call, count: int) -> list[Call]:
    """Return the calls of the members of a group."""
    if count == 1:
        return [call]
    base = call.name
    if base is None:
        base = default.current().unnamed.name(scope_of(number_of(call.process_set)))
    return [replace(call, name=f"{base}_{i}of{count}") for i in range(1, count + 1)]


# Scaling, and averages of integers that are cut toward zero, are operations of TensorFlow: they
# have gradients, and the exchange itself knows nothing of them.


def same(calls: Sequence[Call], tensors: Sequence[Any], gate: Any = None) -> list[Any]:
    """Return the results of calls that all start at once, scaled as the calls say. In a program of
    XLA, they start when the gate is there."""
    if not tensors:
        return []  # TensorFlow has no operation without inputs
    sent, bare = [], []
    for call, tensor in zip(calls, tensors, strict=True):
        is_cut = _is_cut(call, tensor)
        sent.append(_to_send(call, tensor, is_cut))
        bare.append(_without_factors(call, tensor, is_cut))
    results = _differentiable_same(bare, sent, gate)
    return [
        _received(call, tensor, result)
        for call, tensor, result in zip(calls, tensors, results, strict=True)
    ]


def rows(call: Call, tensor: Any, splits: Any = None) -> tuple[Any, Any]:
    """Return the rows that a call brings, and how many are of which rank; of a reducescatter
    nobody says that."""
    sent = scaled(tensor, call.prescale)
    if sent.dtype == tf.uint16:
        sent = tf.bitcast(sent, tf.int16)
    found, counts = _differentiable_rows(_without_factors(call, sent, False), sent, splits)
    if tensor.dtype == tf.uint16:
        found = tf.bitcast(found, tf.uint16)
    return scaled(found, call.postscale), counts


def number(what: str, process_set: ProcessSet = global_process_set) -> Any:
    """Return the answer to a question, of the time when the result is computed."""
    text = kernels.question(what, process_set)
    if tf.executing_eagerly() or compiled.is_here():  # XLA keeps the answer of now
        return tf.constant(kernels.answer(text), tf.int32)
    return graph.number(text)


def scaled(tensor: Any, factor: float) -> Any:
    """Return tensor * factor in the tensor's type. Integers are cut toward zero."""
    if factor == 1.0:
        return tensor
    kind = tensor.dtype
    if kind.is_floating:
        # Of two bytes, the product is rounded once.
        wide = kind if kind.size > 2 else tf.float32
        return tf.cast(tf.cast(tensor, wide) * tf.constant(factor, wide), kind)
    if kind == tf.bool:
        raise InvalidArgumentError(f"a tensor of bool cannot be scaled; the factor is {factor}.")
    return tf.cast(tf.cast(tensor, tf.float64) * factor, kind)


def _is_cut(call: Call, tensor: Any) -> bool:
    is_average = call.toward_zero and call.operation is Operation.AVERAGE
    return is_average and bool(tensor.dtype.is_integer) and not tensor.dtype.is_unsigned


def _to_send(call: Call, tensor: Any, is_cut: bool) -> Any:
    tensor = scaled(tensor, call.prescale)
    if tensor.dtype == tf.uint16:
        return tf.bitcast(tensor, tf.int16)
    if not is_cut:
        return tensor
    # Servers round down: the average of -x, negated, is the average rounded up.
    wide = tf.cast(tensor, tf.int32) if tensor.dtype.size < 4 else tensor
    return tf.stack([wide, -wide])


def _without_factors(call: Call, tensor: Any, is_cut: bool) -> Call:
    detail = detail_of(call, "").removeprefix("; ")
    if is_cut:
        detail = f"{detail}; average of {tensor.dtype.name}".removeprefix("; ")
    return replace(call, prescale=1.0, postscale=1.0, toward_zero=False, detail=detail)


def _received(call: Call, tensor: Any, result: Any) -> Any:
    if tensor.dtype == tf.uint16:
        result = tf.bitcast(result, tf.uint16)
    elif _is_cut(call, tensor):
        result = tf.cast(tf.where(result[0] < 0, -result[1], result[0]), tensor.dtype)
    return scaled(result, call.postscale)


# Gradients: those of Horovod.


def _differentiable_same(
    calls: Sequence[Call], tensors: Sequence[Any], gate: Any = None
) -> list[Any]:
    way: Callable[..., list[Any]] = eager.exchange_same
    if not tf.executing_eagerly():
        if not compiled.is_here():
            return graph.exchange_same(calls, tensors)
        way = functools.partial(compiled.exchange_same, gate=gate)
    if not any(tensor.dtype.is_floating for tensor in tensors):
        return way(calls, tensors)

    @tf.custom_gradient
    def exchange(*values: Any) -> Any:
        def gradient(*upstream: Any) -> Any:
            return _gradients_of_same(calls, upstream)

        return way(calls, values), gradient

    return list(exchange(*tensors))


def _differentiable_rows(call: Call, tensor: Any, splits: Any) -> tuple[Any, Any]:
    if not tf.executing_eagerly():
        compiled.refuse(f"an exchange of rows ({call.operation.name.lower()})")
        return graph.exchange_rows(call, tensor, splits)
    if splits is not None:
        call = replace(call, splits=[int(count) for count in eager.host_array(splits)])
    if not tensor.dtype.is_floating:
        return eager.exchange_rows(call, tensor)
    counts = None

    @tf.custom_gradient
    def exchange(values: Any) -> Any:
        nonlocal counts
        found, counts = eager.exchange_rows(call, values)
        return found, lambda upstream: _gradient_of_rows(call, upstream, counts)

    found = exchange(tensor)
    return found, counts


@tf.RegisterGradient("BytepsExchange")
@with_tensorflow_errors
def _of_exchange(op: Any, *upstream: Any) -> list[Any]:
    calls = [_call_of(text) for text in op.get_attr("calls")]
    return [*_gradients_of_same(calls, upstream), None]


@tf.RegisterGradient("BytepsRows")
@with_tensorflow_errors
def _of_rows(op: Any, upstream: Any, _: Any) -> tuple[Any, None, None]:
    (text,) = op.get_attr("calls")
    return _gradient_of_rows(_call_of(text), upstream, op.outputs[1]), None, None


def _call_of(text: Any) -> Call:
    return exchange_of(tf.compat.as_str(text)).call(0)


def _backward(call: Call, upstream: Any, operation: Operation | None = None) -> Call:
    """Return the call that computes a gradient, named after the one that it is of."""
    name = None if call.name is None else named(f"{call.name}.backward", "", upstream)
    operation = call.operation if operation is None else operation
    return Call(operation, name, priority=call.priority, process_set=call.process_set)


def _gradients_of_same(calls: Sequence[Call], upstream: Sequence[Any]) -> list[Any]:
    places = [i for i, one in enumerate(upstream) if one is not None]
    back = []
    for i in places:
        if calls[i].operation not in (*LINEAR, Operation.BROADCAST):
            raise InvalidArgumentError(
                f"an allreduce with op={calls[i].operation.name.title()} has no derivative here. "
                "Use tf.stop_gradient on its input, or op=Average or op=Sum."
            )
        is_root = calls[i].operation is Operation.BROADCAST
        back.append(_backward(calls[i], upstream[i], Operation.AVERAGE if is_root else None))
    found = same(back, [tf.convert_to_tensor(upstream[i]) for i in places]) if places else []
    results: list[Any] = [None] * len(upstream)
    for i, result in zip(places, found, strict=True):
        results[i] = result
        if calls[i].operation is Operation.BROADCAST:
            is_root = tf.equal(number("job_rank"), calls[i].root_rank)
            results[i] = tf.where(is_root, result, tf.zeros_like(result))
    return results


def _gradient_of_rows(call: Call, upstream: Any, counts: Any) -> Any:
    if call.operation is Operation.ALLTOALL:
        return rows(_backward(call, upstream), upstream, counts)[0]
    if call.operation is Operation.REDUCESCATTER:
        if call.combine not in LINEAR:
            raise InvalidArgumentError(
                f"a reducescatter with op={call.combine.name.title()} has no derivative here."
            )
        whole, _ = rows(_backward(call, upstream, Operation.ALLGATHER), upstream)
        if call.combine is Operation.AVERAGE:
            return whole
        return whole * tf.cast(number("size", call.process_set), whole.dtype)
    (mean,) = same([_backward(call, upstream, Operation.AVERAGE)], [upstream])
    place = number("rank", call.process_set)
    begin = tf.reduce_sum(counts[:place])
    return mean[begin : begin + counts[place]]
