"""Exchanges of tensors that exist: outside of graphs, without a copy where the memory allows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from byteps.common.devices import warn_of_host_copies
from byteps.common.operations.call import Call
from byteps.common.session import default
from byteps.common.session.pending import Handle
from byteps.common.types import Operation
from byteps.numpy.arrays import start_alltoall, start_counted_gather, start_exchange, start_scatter
from byteps.numpy.memory import Array, aligned

# Below, a copy costs less than sharing the memory.
_SHARED_BYTES_MIN = 4096


def host_array(tensor: Any) -> Array:
    """Return the values; of a tensor in host memory this is its own memory, mostly."""
    parts = tensor.device.split(":")  # "/job:localhost/replica:0/task:0/device:GPU:0"
    kind = parts[-2] if len(parts) > 1 else "CPU"
    if kind != "CPU":
        warn_of_host_copies(kind, "byteps.tensorflow has no way into the memory of a device")
    try:
        return np.asarray(memoryview(tensor))
    except (TypeError, ValueError, RuntimeError, BufferError, tf.errors.OpError):
        values: Array = np.asarray(tensor.numpy())
        return values


def tensor_of(array: Array) -> Any:
    """Return a tensor with the values of an array that nobody else uses: mostly in its memory."""
    # TensorFlow does not look whether memory that it takes over is aligned. Its kernels do, and end
    # the process.
    array = aligned(array)
    if array.nbytes >= _SHARED_BYTES_MIN:
        try:
            return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
        except (BufferError, TypeError, RuntimeError, tf.errors.OpError):
            pass  # a type that only one of the two knows
    return tf.convert_to_tensor(array)


def exchange_same(calls: Sequence[Call], tensors: Sequence[Any]) -> list[Any]:
    """Return the results of exchanges that are all on their way at once."""
    handles: list[Handle[Array]] = []
    try:
        for call, tensor in zip(calls, tensors, strict=True):
            handles.append(start_exchange(call, host_array(tensor)))
    except Exception:
        for handle in handles:
            default.pending().abandon(handle)
        raise
    return [tensor_of(array) for array in default.pending().synchronize_all(handles)]


def exchange_rows(call: Call, tensor: Any) -> tuple[Any, Any]:
    """Return the rows that an exchange brings, and how many are of which rank: no number if
    nobody says."""
    handle = _STARTS[call.operation](call, host_array(tensor))
    result = default.pending().synchronize(handle)
    rows, counts = result if isinstance(result, tuple) else (result, np.zeros(0, np.int32))
    return tensor_of(rows), tf.convert_to_tensor(counts)


_STARTS: dict[Operation, Callable[[Call, Array], Handle[Any]]] = {
    Operation.ALLGATHER: start_counted_gather,
    Operation.ALLTOALL: start_alltoall,
    Operation.REDUCESCATTER: start_scatter,
}
