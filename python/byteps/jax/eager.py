"""Exchanges of arrays that exist: outside of programs, without a copy where the array is in host
memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from byteps.common.cuda_memory import NO_STREAM
from byteps.common.devices import DevicePlace, warn_of_host_copies
from byteps.common.errors import BytepsError, InvalidArgumentError
from byteps.common.operations.barriers import meet
from byteps.common.operations.call import Call
from byteps.common.programs.program_exchange import Exchange
from byteps.common.session import default
from byteps.common.session.pending import Handle
from byteps.common.types import Operation
from byteps.numpy.device_arrays import is_reached
from byteps.numpy.device_views import DeviceView
from byteps.numpy.exchange import (
    Given,
    start_alltoall,
    start_exchange,
    start_gather,
    start_scatter,
)
from byteps.numpy.memory import Array


class Started:
    """Exchanges on their way, and where their results go. Give it to `push_pull_done` once."""

    def __init__(self, calls: Sequence[Call], arrays: Sequence[jax.Array]) -> None:
        """Start an exchange of each array."""
        self._arrays = list(arrays)
        self._handles: list[Handle[Any]] = []
        try:
            for call, array in zip(calls, arrays, strict=True):
                self._handles.append(_start(call, array))
        except Exception:
            for handle in self._handles:
                default.pending().abandon(handle)
            raise

    def finish(self) -> list[Any]:
        """Wait for all; return the results, or raise the first error."""
        results, errors = [], []
        for handle, array in zip(self._handles, self._arrays, strict=True):
            try:
                results.append(_results(default.pending().synchronize(handle), array))
            except BytepsError as error:
                errors.append(error)
        self._arrays = []
        if errors:
            raise errors[0]
        return results


def run(x: Any, gate: Any, *, what: Exchange) -> Any:
    """Do what a custom call would, outside of a program: JAX asks for it in grad without jit."""
    call = what.call(int(gate))
    if what.operation is Operation.BARRIER:
        meet(call)
        return gate
    (result,) = Started([call], [jnp.asarray(x)]).finish()
    return result


def _start(call: Call, array: jax.Array) -> Handle[Any]:
    values = _given(array)
    start = _STARTS.get(call.operation)
    if start is not None:
        return start(call, values)
    return start_exchange(call, values)


def _start_alltoall(call: Call, array: Given) -> Handle[Any]:
    # Without splits all numbers of rows are known: the result is the rows alone, as inside jit.
    return start_gather(call, array) if call.splits is None else start_alltoall(call, array)


_STARTS: dict[Operation, Callable[[Call, Given], Handle[Any]]] = {
    Operation.ALLGATHER: start_gather,
    Operation.ALLTOALL: _start_alltoall,
    Operation.REDUCESCATTER: start_scatter,
}


def _given(array: jax.Array) -> Given:
    """Return an array's memory where it is, if the session reaches it, or its values."""
    _check_one_place(array)
    part = array.addressable_data(0)
    if not is_on_gpu(part):
        return host_array(array)
    return view_of(part) if is_reached("gpu") else np.asarray(part)


def is_on_gpu(array: jax.Array) -> bool:
    """Return whether an array of one device is in the memory of a GPU."""
    return array.device.platform == "gpu"


def view_of(array: jax.Array) -> DeviceView:
    """Return an array's memory on a GPU, when its values are there. JAX gives nobody a stream."""
    array.block_until_ready()
    address = array.unsafe_buffer_pointer() if array.size else 0
    place = DevicePlace(array.device.local_hardware_id or 0, NO_STREAM)

    def make(shape: Sequence[int], dtype: np.dtype[Any]) -> DeviceView:
        # Nobody else has it, so that it may be overwritten. An array that nobody has put on a
        # device stays free to go to any.
        with jax.default_device(array.device):
            where = array.device if array.committed else None
            return view_of(jnp.empty(tuple(shape), dtype, device=where))

    return DeviceView(address, array.shape, array.dtype, place, array, False, make, array)


def _check_one_place(array: jax.Array) -> None:
    if not array.is_fully_replicated:
        raise InvalidArgumentError(
            f"this array lies in parts on {len(array.sharding.device_set)} devices. Sum over the "
            "devices first (jax.lax.psum in shard_map), so that each has the whole result; or "
            "exchange array.addressable_data(i) for each."
        )


def host_array(array: jax.Array) -> Array:
    """Return the values; on the CPU this is the array's own memory."""
    _check_one_place(array)
    values = array.addressable_data(0)
    platform = values.device.platform
    if platform != "cpu":
        warn_of_host_copies(platform, "this call reads its values there")
    return np.asarray(values)


def _results(result: Any, like: jax.Array) -> Any:
    """Return what an operation has brought as arrays of JAX, where the array `like` is."""
    if isinstance(result, jax.Array):  # in the memory of the GPU already
        return result
    if isinstance(result, tuple):
        return tuple(_results(part, like) for part in result)
    # An array that nobody has put on a device stays free to go to any.
    return jax.device_put(result, like.sharding if like.committed else None)
