"""Operations on arrays in the memory of a GPU: on that memory, where nothing is left to calculate.

What numpy calculates before or behind an operation, such as scaled values, is calculated in host
memory: the array is copied there, and the result back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from byteps.common.devices import find_devices, warn_of_host_copies
from byteps.common.operations.call import Call, is_cut, start
from byteps.common.operations.splits import check_has_rows, rows_of
from byteps.common.session import default
from byteps.common.session.flight import Flight
from byteps.common.session.pending import Handle
from byteps.numpy import arrays
from byteps.numpy.device_views import DeviceView
from byteps.numpy.memory import Array

# Ranks may have the same array on a GPU and in host memory.
_DEVICE = "cpu"


def is_reached(kind: str = "cuda") -> bool:
    """Return whether the session reaches the memory of GPUs; a warning says once why not."""
    why = find_devices().why_none
    if why:
        warn_of_host_copies(kind, why)
    return not why


def _moves(call: Call) -> bool:
    """Return whether nothing is calculated on this side of an operation."""
    return call.prescale == call.postscale == 1.0 and is_reached()


def start_exchange(call: Call, view: DeviceView, in_place: bool = False) -> Handle[Any]:
    """Start an operation whose result has the array's shape: a new array, or the same."""
    sent, dtype = arrays.as_sent(call, view.dtype)
    arrays.check_scalable(view.dtype, call)
    if is_cut(call, dtype) or not _moves(call):
        handle = arrays.start_exchange(call, view.on_host())
        return default.pending().then(handle, lambda result: _brought(result, view, in_place))
    target = view if in_place else view.make(view.shape, view.dtype)
    return _start(sent, view, dtype, target)


def _start(call: Call, view: DeviceView, dtype: Any, target: DeviceView) -> Handle[Any]:
    places = (view.address, target.address)
    keep = (view, target)
    return start(
        call, _DEVICE, dtype, view.shape, *places, lambda _: target.given, keep, view.place
    )


def _brought(values: Array, like: DeviceView, in_place: bool = False) -> Any:
    """Return values of the host as an array on the GPU."""
    return (like if in_place else like.make(values.shape, values.dtype)).fill(values)


def start_gather(call: Call, view: DeviceView) -> Handle[Any]:
    """Start to join the rows of all ranks."""
    return _start_rows(call, view.with_rows(), is_counted=False)


def start_alltoall(call: Call, view: DeviceView) -> Handle[Any]:
    """Start to give each rank some rows, as `call.splits` says; the result is the rows, and the
    number of rows from each rank, in host memory."""
    return _start_rows(call, view, is_counted=True)


def _start_rows(call: Call, view: DeviceView, is_counted: bool) -> Handle[Any]:
    call, dtype = arrays.as_sent(call, view.dtype)

    def finish(flight: Flight) -> Any:
        # Nobody knows their number before, so they come into host memory.
        rows = _brought(arrays.received(flight, view.shape, view.dtype), view)
        return (rows, np.array(flight.rows_of_ranks(), np.int32)) if is_counted else rows

    if not is_reached():
        host = view.on_host()
        place = int(host.ctypes.data)
        return start(call, _DEVICE, dtype, view.shape, place, finish=finish, keep_alive=host)
    address, place_on = view.address, view.place
    return start(call, _DEVICE, dtype, view.shape, address, 0, finish, view, place_on)


def start_scatter(call: Call, view: DeviceView) -> Handle[Any]:
    """Start to combine an array of which each rank gets some rows."""
    dtype = arrays.data_type_of(view.dtype)
    check_has_rows(view.shape)
    arrays.check_scalable(view.dtype, call)
    if not _moves(call):
        handle = arrays.start_scatter(call, view.on_host())
        return default.pending().then(handle, lambda result: _brought(result, view))
    rows = rows_of(call.process_set.rank(), call.process_set.size(), view.shape[0])
    target = view.make((rows, *view.shape[1:]), view.dtype)
    return _start(call, view, dtype, target)


# Groups are packed in host memory.


def on_host(given: Sequence[Array | DeviceView]) -> list[Array]:
    """Return arrays of which some are on a GPU, all in host memory."""
    return [one.on_host() if isinstance(one, DeviceView) else one for one in given]


def brought_back(
    handle: Handle[list[Array]], given: Sequence[Array | DeviceView], in_place: bool = False
) -> Handle[list[Any]]:
    """Let the results of a group be where its arrays are."""
    if not any(isinstance(one, DeviceView) for one in given):
        return handle

    def bring(results: list[Array]) -> list[Any]:
        return [
            _brought(result, one, in_place) if isinstance(one, DeviceView) else result
            for result, one in zip(results, given, strict=True)
        ]

    return default.pending().then(handle, bring)
