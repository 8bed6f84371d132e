"""Operations on arrays, each in a synchronous and an asynchronous form.

They take arrays of numpy, everything in host memory that speaks DLPack, and what `numpy.asarray`
takes; results are arrays of numpy. Forms that end in `_` or `inplace` overwrite what they are
given. Names are the same on all ranks. A handle is a positive int; give each one to `synchronize`
once; the array must not change until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from byteps.common import default
from byteps.common.arrays import (
    Array,
    as_array,
    start_alltoall,
    start_exchange,
    start_gather,
    start_group_exchange,
    start_group_gather,
    start_group_scatter,
    start_scatter,
    writable,
)
from byteps.common.barriers import barrier, join
from byteps.common.call import Call, checked_root
from byteps.common.objects import allgather_object, broadcast_object
from byteps.common.pending import Handle, Result
from byteps.common.process_sets import ProcessSet, global_process_set
from byteps.common.reduction import Average, ReduceOp, choose_op, operation_of
from byteps.common.splits import check_has_rows, checked_splits
from byteps.common.types import Operation

__all__ = [
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "join",
    "members_of",
    "poll",
    "push_pull",
    "push_pull_async",
    "push_pull_async_inplace",
    "push_pull_inplace",
    "reducescatter",
    "reducescatter_async",
    "synchronize",
]


def push_pull_async(
    tensor: Any, average: bool = True, name: str | None = None, version: int = 0, priority: int = 0
) -> Handle[Array]:
    """Start to combine an array over all ranks into a new one; return a handle.

    Example::

        mean = bps.synchronize(bps.push_pull_async(array, name="loss"))
    """
    return start_exchange(_push_pull(average, name, priority), as_array(tensor))


def push_pull_async_inplace(
    tensor: Any, average: bool = True, name: str | None = None, version: int = 0, priority: int = 0
) -> Handle[Array]:
    """Start to combine an array over all ranks in place; return a handle.

    Example::

        bps.synchronize(bps.push_pull_async_inplace(gradient, name="gradient"))
    """
    array = writable(tensor)
    return start_exchange(_push_pull(average, name, priority), array, array)


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


def _push_pull(average: bool, name: str | None, priority: int) -> Call:
    return Call(Operation.AVERAGE if average else Operation.SUM, name, priority=priority)


def _reduce(
    op: ReduceOp | None,
    average: bool | None,
    name: str | None,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
) -> Call:
    return Call(
        operation_of(choose_op(average, op)),
        name,
        process_set=process_set,
        prescale=float(prescale_factor),
        postscale=float(postscale_factor),
        toward_zero=True,
    )


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
    call = _reduce(op, average, name, prescale_factor, postscale_factor, process_set)
    return start_exchange(call, as_array(tensor))


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
    call = _reduce(op, average, name, prescale_factor, postscale_factor, process_set)
    return start_exchange(call, array, array)


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
    call = _reduce(op, average, name, prescale_factor, postscale_factor, process_set)
    return start_group_exchange(call, [as_array(tensor) for tensor in tensors])


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
    call = _reduce(op, average, name, prescale_factor, postscale_factor, process_set)
    return start_group_exchange(call, arrays, arrays)


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


def allgather_async(
    tensor: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Handle[Array]:
    """Start to join the arrays of all ranks along the first dimension; return a handle.

    Example::

        rows = bps.synchronize(bps.allgather_async(array, name="rows"))
    """
    return start_gather(_gather(name, process_set), as_array(tensor))


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
    return start_group_gather(_gather(name, process_set), [as_array(tensor) for tensor in tensors])


def grouped_allgather(
    tensors: Sequence[Any], name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Array]:
    """Return all ranks' rows of several arrays, all or none; see `allgather`.

    Example::

        inputs, labels = bps.grouped_allgather([inputs, labels], name="batch")
    """
    return synchronize(grouped_allgather_async(tensors, name, process_set))


def _gather(name: str | None, process_set: ProcessSet) -> Call:
    return Call(Operation.ALLGATHER, name, process_set=process_set)


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
    return start_exchange(_broadcast(root_rank, name, process_set), as_array(tensor))


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
    array = writable(tensor)
    return start_exchange(_broadcast(root_rank, name, process_set), array, array)


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


def _broadcast(root_rank: int, name: str | None, process_set: ProcessSet) -> Call:
    root = checked_root(root_rank, process_set)
    return Call(Operation.BROADCAST, name, root, process_set=process_set)


def alltoall_async(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Any]:
    """Start to give each rank some rows of an array; return a handle.

    Example::

        rows, counts = bps.synchronize(bps.alltoall_async(array, splits=[1, 3], name="rows"))
    """
    array = as_array(tensor)
    check_has_rows(array.shape)
    call = Call(Operation.ALLTOALL, name, process_set=process_set)
    call.splits = checked_splits(splits, process_set.size(), len(array))
    return start_alltoall(call, array)


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Give each rank some rows of an array, and return those that came, in the order of ranks.

    `splits` says how many rows each rank gets; then the number of rows from each rank is returned
    as well. Without it all get equally many.

    Example::

        rows = bps.alltoall(array, name="rows")
        rows, counts = bps.alltoall(array, splits=[1, 3], name="more rows")
    """
    return synchronize(alltoall_async(tensor, splits, name, process_set))


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
    call = _scatter(name, op, process_set, prescale_factor, postscale_factor)
    return start_scatter(call, as_array(tensor))


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
    call = _scatter(name, op, process_set, prescale_factor, postscale_factor)
    return start_group_scatter(call, [as_array(tensor) for tensor in tensors])


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


def _scatter(
    name: str | None,
    op: ReduceOp,
    process_set: ProcessSet,
    prescale_factor: float,
    postscale_factor: float,
) -> Call:
    return Call(
        Operation.REDUCESCATTER,
        name,
        process_set=process_set,
        prescale=float(prescale_factor),
        postscale=float(postscale_factor),
        combine=operation_of(op),
    )


def poll(handle: int) -> bool:
    """Return whether `synchronize(handle)` would not block.

    Example::

        while not bps.poll(handle):
            do_something_else()
    """
    return default.pending().poll(handle)


def members_of(handle: int) -> list[int]:
    """Return the ranks whose contributions are in every part of the result of a complete operation;
    none when it failed. Handles have them as `handle.members` too.

    Example::

        bps.synchronize(handle)
        assert bps.members_of(handle) == bps.members()
    """
    return default.pending().members_of(handle)


@overload
def synchronize(handle: Handle[Result]) -> Result: ...


@overload
def synchronize(handle: int) -> Any: ...


def synchronize(handle: int) -> Any:
    """Block until the operation is over; return its result, or raise why it failed.

    A handle that this process does not know gives None.

    Example::

        mean = bps.synchronize(bps.allreduce_async(array, name="loss"))
    """
    return default.pending().synchronize(handle)
