"""Operations on values: tensors of the backend, variables of Keras, numbers, lists and arrays.

A tensor or a variable gives a tensor of the backend; everything else gives an array of numpy.
"""

from __future__ import annotations

from typing import Any

import keras

import byteps.numpy as arrays
from byteps.common.barriers import barrier, join
from byteps.common.compression import Compressor
from byteps.common.objects import allgather_object, broadcast_object
from byteps.common.process_sets import ProcessSet, global_process_set
from byteps.common.reduction import Average, ReduceOp
from byteps.keras.backends import BACKEND

__all__ = [
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_object",
    "join",
    "push_pull",
    "reducescatter",
]

_NONE = BACKEND.compression.none


def _of(value: Any) -> tuple[Any, Any]:
    """Return the module that exchanges the value, and what that takes."""
    if isinstance(value, keras.Variable):
        value = value.value
    return (BACKEND.ops if BACKEND.is_tensor(value) else arrays), value


def push_pull(value: Any, name: str | None = None, average: bool = True) -> Any:
    """Return the average, or the sum, of all ranks' values. Averages of integers round down.

    Example::

        mean = bps.push_pull(loss, name="loss")
    """
    module, value = _of(value)
    return module.push_pull(value, average=average, name=name)


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: ReduceOp | None = None,
    compression: Compressor | type[Compressor] = _NONE,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the combination of all ranks' values: their average, or what `op` says.

    `average` is deprecated: use `op`.

    Example::

        largest = bps.allreduce(loss, name="largest loss", op=bps.Max)
    """
    module, value = _of(value)
    more: dict[str, Any] = {}
    if compression is not _NONE:
        module, value = BACKEND.ops, keras.ops.convert_to_tensor(value)
        more["compression"] = compression
    return module.allreduce(
        value,
        average=average,
        name=name,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set=process_set,
        **more,
    )


def allgather(
    value: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Return the values of all ranks, joined along the first dimension in rank order.

    Example::

        predictions = bps.allgather(predictions, name="predictions")
    """
    module, value = _of(value)
    return module.allgather(value, name=name, process_set=process_set)


def broadcast(
    value: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the root's value, bit for bit.

    Example::

        epoch = int(bps.broadcast(epoch, root_rank=0, name="epoch"))
    """
    module, value = _of(value)
    return module.broadcast(value, root_rank=root_rank, name=name, process_set=process_set)


def alltoall(
    value: Any,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Give each rank some rows, and return those that came, in the order of ranks.

    `splits` says how many rows each rank gets; then the number of rows from each rank is returned
    as well.

    Example::

        rows = bps.alltoall(rows, name="rows")
    """
    module, value = _of(value)
    return module.alltoall(value, splits=splits, name=name, process_set=process_set)


def reducescatter(
    value: Any,
    name: str | None = None,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return this rank's rows of the combination of all ranks' values.

    Example::

        mine = bps.reducescatter(rows, name="rows", op=bps.Sum)
    """
    module, value = _of(value)
    return module.reducescatter(value, name=name, op=op, process_set=process_set)
