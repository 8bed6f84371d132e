"""`tf.IndexedSlices`: rows of a tensor, of which each rank has some."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from byteps.common.errors import InvalidArgumentError
from byteps.common.operations.calls import gather_call
from byteps.common.operations.reduction import Average, ReduceOp, Sum, operation_of
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.tensorflow.exchange import as_tensor, named, number, rows


def allreduce_slices(
    slices: Any,
    op: ReduceOp,
    name: str | None,
    kind: str,
    factors: tuple[float, float] = (1.0, 1.0),
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the rows of all ranks, in rank order, as they are: an index may be there twice.

    Averages are divided by the number of ranks; those of integers become floating-point numbers.
    """
    check_slices(op, factors)
    slices = as_slices(slices)
    values = _gather(slices.values, name, f"{kind}_values", process_set)
    indices = _gather(slices.indices, name, f"{kind}_indices", process_set)
    if op is Average:
        values = _divided(values, number("size", process_set))
    return tf.IndexedSlices(values, indices, slices.dense_shape)


def check_slices(op: ReduceOp, factors: tuple[float, float]) -> None:
    """Raise unless rows can be combined so. Looks at no value: all ranks come to the same end."""
    operation_of(op)  # raises for what is no op
    if op not in (Average, Sum):
        raise NotImplementedError(
            f"tf.IndexedSlices cannot be combined with op={op.name.title()}. Use op=Average or "
            "op=Sum, or make it dense with tf.convert_to_tensor."
        )
    if factors != (1.0, 1.0):
        raise NotImplementedError(
            "prescale_factor and postscale_factor are not supported for tf.IndexedSlices. Make it "
            "dense with tf.convert_to_tensor, or scale its values."
        )


def as_slices(slices: Any) -> Any:
    """Return slices of tensors, for which the user may have given lists; raise if they cannot be
    exchanged."""
    call = gather_call(None)
    values, indices = as_tensor(slices.values, call), as_tensor(slices.indices, call)
    shape = slices.dense_shape
    return tf.IndexedSlices(values, indices, None if shape is None else as_tensor(shape, call))


def _gather(value: Any, name: str | None, part: str, process_set: ProcessSet) -> Any:
    call = gather_call(None if name is None else f"{name}.{part}", process_set)
    tensor = as_tensor(value, call)
    if tensor.shape.rank == 0:
        raise InvalidArgumentError("the values of tf.IndexedSlices must be rows.")
    call.name = named(call.name, part, tensor)
    found, _ = rows(call, tensor)
    return found


def _divided(values: Any, count: Any) -> Any:
    if values.dtype.is_integer:
        values = tf.cast(values, tf.float64 if values.dtype.size >= 4 else tf.float32)
    return values / tf.cast(count, values.dtype)


def as_dense(gradient: Any) -> Any:
    """Return a gradient as a tensor, also one of rows."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.convert_to_tensor(gradient)
    return gradient
