"""Every rank gets the combination of all ranks' arrays: push_pull and the allreduce family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from byteps.common.operations.call import Call
from byteps.common.operations.calls import push_pull_call, reduce_call
from byteps.common.operations.reduction import Adasum, ReduceOp, choose_op
from byteps.common.session import default
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.mxnet.arrays import Array, classic, exchange, exchange_group, exchange_in_place, like
from byteps.mxnet.compression import check_tensor_options
from byteps.mxnet.errors import raises_mxnet_errors


@raises_mxnet_errors
def byteps_declare_tensor(name: str, **kwargs: Any) -> None:
    """Give a tensor its place in the order of urgency before its first use.

    Options begin with `byteps_` and choose a codec of the original; this version has none, and says
    so.

    Example::

        bps.byteps_declare_tensor("gradient_0")
    """
    check_tensor_options(kwargs)
    default.declare(name)


@raises_mxnet_errors
def byteps_push_pull(
    tensor: Array,
    version: int = 0,
    priority: int = 0,
    name: str | None = None,
    is_average: bool = True,
) -> None:
    """Combine an array over all ranks in place, in MXNet's engine: this returns at once.

    Averages of integers are cut toward zero.

    Example::

        bps.byteps_push_pull(gradient, name="gradient_0", priority=0)
    """
    del version
    call = replace(push_pull_call(is_average, name, priority), toward_zero=True)
    exchange_in_place(call, classic(tensor))


@raises_mxnet_errors
def allreduce(
    tensor: Array,
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: ReduceOp | None = None,
) -> Array:
    """Return the combination of all ranks' arrays: their average, or what `op` says.

    It returns at once; who reads the result waits for it, and is told if it has failed. The array
    is multiplied by `prescale_factor` before and by `postscale_factor` after it is combined.
    Averages of integers and scaled integers are cut toward zero. `average` is deprecated: use `op`.

    Example::

        loss = bps.allreduce(loss, name="loss").asscalar()
    """
    call = _call(average, op, name, priority, prescale_factor, postscale_factor, process_set)
    return like(exchange(call, classic(tensor)), tensor)


@raises_mxnet_errors
def allreduce_(
    tensor: Array,
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: ReduceOp | None = None,
) -> Array:
    """Combine an array over all ranks in place and return it, at once; see `allreduce`.

    Example::

        bps.allreduce_(gradient, name="gradient", op=bps.Sum)
    """
    call = _call(average, op, name, priority, prescale_factor, postscale_factor, process_set)
    exchange_in_place(call, classic(tensor))
    return tensor


@raises_mxnet_errors
def grouped_allreduce(
    tensors: Sequence[Array],
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: ReduceOp | None = None,
) -> list[Array]:
    """Return the combinations of several arrays, all or none; see `allreduce`.

    They travel together, so many small ones cost as little as one.

    Example::

        loss, accuracy = bps.grouped_allreduce([loss, accuracy], name="metrics")
    """
    call = _call(average, op, name, priority, prescale_factor, postscale_factor, process_set)
    tensors = list(tensors)
    results = exchange_group(call, [classic(tensor) for tensor in tensors])
    return [like(result, tensor) for result, tensor in zip(results, tensors, strict=True)]


@raises_mxnet_errors
def grouped_allreduce_(
    tensors: Sequence[Array],
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: ReduceOp | None = None,
) -> list[Array]:
    """Combine several arrays in place, all or none, and return them, at once; see `allreduce`.

    Example::

        bps.grouped_allreduce_([loss, accuracy], name="metrics")
    """
    call = _call(average, op, name, priority, prescale_factor, postscale_factor, process_set)
    tensors = list(tensors)
    arrays = [classic(tensor) for tensor in tensors]
    for result, array in zip(exchange_group(call, arrays), arrays, strict=True):
        result.copyto(array)
    return tensors


def _call(
    average: bool | None,
    op: ReduceOp | None,
    name: str | None,
    priority: int,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
) -> Call:
    op = choose_op(average, op)
    if op is Adasum:  # as in Horovod
        raise AssertionError("Adasum is not supported. Use op=Average.")
    call = reduce_call(op, name, prescale_factor, postscale_factor, process_set)
    return replace(call, priority=priority)
