"""Arrays that all ranks must have alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from byteps.common.operations.barriers import meet
from byteps.common.operations.call import Call, checked_root
from byteps.common.operations.calls import broadcast_call
from byteps.common.operations.replicas import compare, digest
from byteps.common.session import default
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation
from byteps.numpy.device_arrays import on_host
from byteps.numpy.exchange import as_given, start_exchange, writable
from byteps.numpy.memory import Array


def broadcast_parameters(
    params: Mapping[str, Any],
    root_rank: int = 0,
    prefix: str = "Parameter.",
    process_set: ProcessSet = global_process_set,
) -> None:
    """Overwrite the arrays of a dict with the root's, bit for bit; all are on their way at once.

    Other names on some rank are a MismatchError on every rank.

    Example::

        bps.broadcast_parameters({"weights": weights, "bias": bias}, root_rank=0)
    """
    named = sorted(
        (str(name), writable(value, Operation.BROADCAST)) for name, value in params.items()
    )
    root = checked_root(root_rank, process_set)
    names = ", ".join(name for name, _ in named)
    detail = f"root {root}; {len(named)} tensors: {names}"
    name = f"broadcast_parameters {prefix}"
    meet(Call(Operation.BARRIER, name, process_set=process_set, detail=detail))
    handles = [
        start_exchange(broadcast_call(root, prefix + name, process_set), array, in_place=True)
        for name, array in named
    ]
    default.pending().synchronize_all(handles)


def check_replicas(
    params: Mapping[str, Any],
    name: str = "arrays",
    process_set: ProcessSet = global_process_set,
) -> None:
    """Raise ReplicasDifferError on every rank unless all ranks have the same arrays, bit for bit.

    The error names the first array that differs, and the ranks where it does. Each rank reads its
    arrays once and sends 8 bytes for each. All ranks must call it.

    Example::

        bps.check_replicas({"weights": weights, "bias": bias})
    """
    given = [as_given(value, Operation.BROADCAST) for value in params.values()]
    pairs = zip(params, on_host(given), strict=True)
    compare([_digest(str(key), array) for key, array in pairs], name, process_set)


def _digest(key: str, array: Array) -> tuple[str, tuple[int, ...], bytes]:
    # tobytes has the values in order, whatever the array's memory is like.
    memory = array.astype(array.dtype.newbyteorder("="), order="C", copy=False)
    values = memory if memory.flags.c_contiguous else memory.copy()
    return key, array.shape, digest(array.dtype.name, int(values.ctypes.data), values.nbytes)
