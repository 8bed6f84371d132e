"""Every rank gets the combination of all ranks' arrays: push_pull and the allreduce family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from byteps.common.operations.calls import push_pull_call, reduce_call
from byteps.common.operations.reduction import ReduceOp, choose_op
from byteps.common.session.pending import Handle
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.numpy.exchange import as_given, start_exchange, start_group_exchange, writable
from byteps.numpy.handles import synchronize
from byteps.numpy.memory import Array


def push_pull_async(
    tensor: Any, average: bool = True, name: str | None = None, version: int = 0, priority: int = 0
) -> Handle[Array]:
    """Start to combine an array over all ranks into a new one; return a handle.

    Example::

        mean = bps.synchronize(bps.push_pull_async(array, name="loss"))
    """
    return start_exchange(push_pull_call(average, name, priority), as_given(tensor))


def push_pull_async_inplace(
    tensor: Any, average: bool = True, name: str | None = None, version: int = 0, priority: int = 0
) -> Handle[Array]:
    """Start to combine an array over all ranks in place; return a handle.

    Example::

        bps.synchronize(bps.push_pull_async_inplace(gradient, name="gradient"))
    """
    array = writable(tensor)
    return start_exchange(push_pull_call(average, name, priority), array, in_place=True)


def push_pull(
    tensor: Any, average: bool = True, name: str | None = None, version: int = 0, priority: int = 0
) -> Array:
    """Return the average, or the sum, of all ranks' arrays. Averages of integers round down.

    Example::

        mean = bps.push_pull(array, name="loss")
    """
    return synchronize(push_pull_async(tensor, average, name, version, priority))


def push_pull_inplace(
    tensor: Any, average: bool = True, name: str | None = None, version: int = 0, priority: int = 0
) -> Any:
    """Combine an array over all ranks in place and return it.

    Example::

        bps.push_pull_inplace(counts, average=False, name="counts")
    """
    synchronize(push_pull_async_inplace(tensor, average, name, version, priority))
    return tensor


def allreduce_async(
    tensor: Any,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[Array]:
    """Start to combine an array over all ranks into a new one; return a handle.

    Example::

        mean = bps.synchronize(bps.allreduce_async(array, name="loss"))
    """
    call = reduce_call(choose_op(average, op), name, prescale_factor, postscale_factor, process_set)
    return start_exchange(call, as_given(tensor))


def allreduce_async_(
    tensor: Any,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[Array]:
    """Start to combine an array over all ranks in place; return a handle.

    Example::

        bps.synchronize(bps.allreduce_async_(array, name="loss", op=bps.Sum))
    """
    array = writable(tensor)
    call = reduce_call(choose_op(average, op), name, prescale_factor, postscale_factor, process_set)
    return start_exchange(call, array, in_place=True)


def allreduce(
    tensor: Any,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """Return the combination of all ranks' arrays: their average, or what `op` says.

    The array is multiplied by `prescale_factor` before and by `postscale_factor` after it is
    combined. Averages of integers and scaled integers are cut toward zero. `average` is deprecated:
    use `op`.

    Example::

        largest = bps.allreduce(array, name="largest", op=bps.Max)
    """
    options = (op, prescale_factor, postscale_factor, process_set)
    return synchronize(allreduce_async(tensor, average, name, *options))


def allreduce_(
    tensor: Any,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Combine an array over all ranks in place and return it.

    Example::

        bps.allreduce_(array, name="loss")
    """
    options = (op, prescale_factor, postscale_factor, process_set)
    synchronize(allreduce_async_(tensor, average, name, *options))
    return tensor


def grouped_allreduce_async(
    tensors: Sequence[Any],
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[list[Array]]:
    """Start to combine several arrays into new ones, all or none; return one handle.

    Example::

        loss, accuracy = bps.synchronize(bps.grouped_allreduce_async([loss, accuracy], name="m"))
    """
    call = reduce_call(choose_op(average, op), name, prescale_factor, postscale_factor, process_set)
    return start_group_exchange(call, [as_given(tensor) for tensor in tensors])


def grouped_allreduce_async_(
    tensors: Sequence[Any],
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[list[Array]]:
    """Start to combine several arrays in place, all or none; return one handle.

    Example::

        bps.synchronize(bps.grouped_allreduce_async_(gradients, name="gradients"))
    """
    arrays = [writable(tensor) for tensor in tensors]
    call = reduce_call(choose_op(average, op), name, prescale_factor, postscale_factor, process_set)
    return start_group_exchange(call, arrays, in_place=True)


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Array]:
    """Return the combinations of several arrays, all or none; see `allreduce`.

    They travel together, so many small ones cost as little as one.

    Example::

        loss, accuracy = bps.grouped_allreduce([loss, accuracy], name="metrics")
    """
    options = (op, prescale_factor, postscale_factor, process_set)
    return synchronize(grouped_allreduce_async(tensors, average, name, *options))


def grouped_allreduce_(
    tensors: Sequence[Any],
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Combine several arrays in place, all or none, and return them.

    Example::

        bps.grouped_allreduce_([loss, accuracy], name="metrics")
    """
    options = (op, prescale_factor, postscale_factor, process_set)
    synchronize(grouped_allreduce_async_(tensors, average, name, *options))
    return list(tensors)
