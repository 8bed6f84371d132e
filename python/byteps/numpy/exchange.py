"""Operations on arrays wherever they are: in host memory, or in the memory of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from byteps.common.errors import InvalidArgumentError
from byteps.common.operations.call import Call
from byteps.common.session.pending import Handle
from byteps.common.types import Operation
from byteps.numpy import arrays, device_arrays
from byteps.numpy.device_views import DeviceView, is_on_device, view_of
from byteps.numpy.memory import Array

Given: TypeAlias = "Array | DeviceView"


def as_given(value: Any, operation: Operation = Operation.SUM) -> Given:
    """Return the memory of a value, wherever it is; raise if the operation cannot take it."""
    if not is_on_device(value):
        return arrays.as_array(value, operation)
    view = view_of(value)
    arrays.check_type(view.dtype, operation)
    return view


def writable(value: Any, operation: Operation = Operation.SUM) -> Given:
    """Do `as_given` for a value that a result overwrites; raise for one that cannot be."""
    if not is_on_device(value):
        return arrays.writable(value, operation)
    view = view_of(value)
    arrays.check_type(view.dtype, operation)
    if not view.is_writable:
        raise InvalidArgumentError(
            f"this {type(value).__name__} cannot be changed in place: it is read-only. Use the "
            "form that returns a new array, or copy it first."
        )
    return view


def start_exchange(call: Call, given: Given, in_place: bool = False) -> Handle[Any]:
    """Start an operation whose result has the array's shape: a new array, or the same."""
    if isinstance(given, DeviceView):
        return device_arrays.start_exchange(call, given, in_place)
    return arrays.start_exchange(call, given, given if in_place else None)


def start_gather(call: Call, given: Given) -> Handle[Any]:
    """Start to join the rows of all ranks."""
    if isinstance(given, DeviceView):
        return device_arrays.start_gather(call, given)
    return arrays.start_gather(call, given)


def start_alltoall(call: Call, given: Given) -> Handle[Any]:
    """Start to give each rank some rows; the result is the rows, and how many are from whom."""
    if isinstance(given, DeviceView):
        return device_arrays.start_alltoall(call, given)
    return arrays.start_alltoall(call, given)


def start_scatter(call: Call, given: Given) -> Handle[Any]:
    """Start to combine an array of which each rank gets some rows."""
    if isinstance(given, DeviceView):
        return device_arrays.start_scatter(call, given)
    return arrays.start_scatter(call, given)


def start_group_exchange(
    call: Call, given: Sequence[Given], in_place: bool = False
) -> Handle[list[Any]]:
    """Start to combine several arrays, all or none, into new ones or in place."""
    own = device_arrays.on_host(given)
    handle = arrays.start_group_exchange(call, own, own if in_place else None)
    return device_arrays.brought_back(handle, given, in_place)


def start_group_gather(call: Call, given: Sequence[Given]) -> Handle[list[Any]]:
    """Start to join the rows of several arrays, all or none."""
    handle = arrays.start_group_gather(call, device_arrays.on_host(given))
    return device_arrays.brought_back(handle, given)


def start_group_scatter(call: Call, given: Sequence[Given]) -> Handle[list[Any]]:
    """Start to combine several arrays of which each rank gets some rows, all or none."""
    handle = arrays.start_group_scatter(call, device_arrays.on_host(given))
    return device_arrays.brought_back(handle, given)
