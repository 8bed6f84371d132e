"""Rows that ranks give each other: allgather, broadcast, alltoall and reducescatter.

All functions take an array or a tree of arrays, and work inside jit, grad and vmap. Inside jit, all
ranks must have equally many rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from byteps.common.operations.call import Call
from byteps.common.operations.calls import broadcast_call, gather_call, scatter_call
from byteps.common.operations.reduction import Average, ReduceOp
from byteps.common.operations.splits import check_has_rows, checked_splits
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation
from byteps.jax.compression import Compression, Compressor
from byteps.jax.exchange import Tree, run


def allgather(
    tensor: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Return the arrays of all ranks, joined along the first dimension in rank order.

    Outside jit the first dimension may differ between ranks. An array without dimensions counts as
    one row.

    Example::

        predictions = bps.allgather(predictions, name="predictions")
    """
    tree = Tree(tensor, Operation.ALLGATHER)
    rows = [leaf if leaf.ndim else leaf.reshape(1) for leaf in tree.leaves]
    return run(gather_call(name, process_set), tree.with_leaves(rows))


def grouped_allgather(
    tensors: Sequence[Any], name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Do `allgather` with several arrays; that takes them, too.

    Example::

        inputs, labels = bps.grouped_allgather([inputs, labels], name="batch")
    """
    return allgather(tensors, name, process_set)


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the root's array, bit for bit. With a process set, `root_rank` is still the rank in
    the whole job.

    Example::

        weights = bps.broadcast(weights, root_rank=0, name="weights")
    """
    return run(broadcast_call(root_rank, name, process_set), tensor)


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Give each rank some rows of an array, and return those that came, in the order of ranks.

    `splits` says how many rows each rank gets; then the number of rows from each rank is returned
    as well. Without it all get equally many. Inside jit there are no splits.

    Example::

        rows = bps.alltoall(array, name="rows")
        rows, counts = bps.alltoall(array, splits=[1, 3], name="more rows")
    """
    call = Call(Operation.ALLTOALL, name, process_set=process_set)
    for leaf in Tree(tensor, Operation.ALLTOALL).leaves:
        check_has_rows(leaf.shape)
        call.splits = checked_splits(splits, process_set.size(), leaf.shape[0])
    return run(call, tensor)


def reducescatter(
    tensor: Any,
    name: str | None = None,
    compression: Compressor | type[Compressor] = Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Return this rank's rows of the combination of all ranks' arrays.

    Rows are dealt in the order of ranks, as evenly as possible: the first ranks get one more if
    they must.

    Example::

        mine = bps.reducescatter(array, name="rows", op=bps.Sum)
    """
    for leaf in Tree(tensor, Operation.REDUCESCATTER).leaves:
        check_has_rows(leaf.shape)
    call = scatter_call(op, name, process_set, prescale_factor, postscale_factor)
    return run(call, tensor, compression)


def grouped_reducescatter(
    tensors: Sequence[Any],
    name: str | None = None,
    compression: Compressor | type[Compressor] = Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Do `reducescatter` with several arrays; that takes them, too.

    Example::

        parts = bps.grouped_reducescatter([weights, biases], name="parts")
    """
    return reducescatter(
        tensors, name, compression, op, process_set, prescale_factor, postscale_factor
    )
