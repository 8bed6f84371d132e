"""How an array of MXNet becomes an exchange. All that happens to it is pushed to MXNet's engine."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, nd

from byteps.common.devices import warn_of_host_copies
from byteps.common.errors import InvalidArgumentError
from byteps.common.operations.call import Call, is_cut
from byteps.common.operations.groups import describe_tensors, places_by_kind
from byteps.common.types import DataType
from byteps.mxnet.engine import Pushed, push
from byteps.numpy.arrays import data_type_of

Array = Any  # nd.NDArray, and mx.np.ndarray, which derives from it

_HOST = ("cpu", "cpu_pinned", "cpu_shared")


def classic(array: Array) -> Array:
    """Return the array as one of mx.nd with the same memory; raise if it cannot be exchanged."""
    if not isinstance(array, nd.NDArray):
        raise InvalidArgumentError(
            f"a {type(array).__name__} cannot be exchanged; give an NDArray of MXNet. "
            "allgather_object and broadcast_object take any object."
        )
    if array.stype != "default":
        raise InvalidArgumentError(
            f"arrays of storage type {array.stype} cannot be exchanged; exchange "
            "array.tostype('default')."
        )
    data_type(array)
    return array.as_nd_ndarray()


def like(result: Array, array: Array) -> Array:
    """Return a classic array as the kind of array that the user has, where that one is."""
    result = result.as_in_context(array.context)
    return result.as_np_ndarray() if isinstance(array, mx.np.ndarray) else result


def data_type(array: Array) -> DataType:
    """Return the type of an array's elements; raise if they cannot be exchanged."""
    return data_type_of(np.dtype(array.dtype))


def _is_on_host(array: Array) -> bool:
    return array.context.device_type in _HOST


def _host_copy(array: Array) -> Array:
    """Return a new array on the CPU. Its memory is plain, which that of results of oneDNN, such as
    convolutions, is not."""
    if _is_on_host(array):
        return array.copy()
    kind = array.context.device_type
    warn_of_host_copies(kind, "byteps.mxnet has no way into the memory of a device")
    return array.copyto(mx.cpu())


def _may_be_odd(array: Array) -> bool:
    """Return whether oneDNN may have chosen the layout of the array's memory, which nobody knows
    before the engine has come to it."""
    return array.ndim > 1 and np.dtype(array.dtype) == np.float32


def scaled(array: Array, factor: float) -> Array:
    """Return array * factor in the array's type. Integers are cut toward zero."""
    if factor == 1.0:
        return array
    kind = np.dtype(array.dtype)
    if kind == np.bool_:
        raise InvalidArgumentError(f"an array of bool cannot be scaled; the factor is {factor}.")
    if kind.kind in "iu":
        return (array.astype("float64") * factor).astype(kind)
    if kind.itemsize == 2:  # the product is rounded once
        return (array.astype("float32") * factor).astype(kind)
    return array * factor


def exchange(call: Call, array: Array) -> Array:
    """Return a new classic array on the CPU with the result, of the array's shape."""
    return _exchange(call, array)[0]


def _exchange(call: Call, array: Array, after: Pushed | None = None) -> tuple[Array, Pushed]:
    with autograd.pause():
        if is_cut(call, data_type(array)):
            return _cut_average(call, array, after)
        values = scaled(_host_copy(array), call.prescale)
        pushed = push(call, values, after)
        return scaled(values, call.postscale), pushed


def _cut_average(call: Call, array: Array, after: Pushed | None) -> tuple[Array, Pushed]:
    """Return an average of integers, cut toward zero.

    Servers round down: the average of -x, negated, is the average rounded up."""
    kind = np.dtype(array.dtype)
    values = scaled(_host_copy(array), call.prescale)
    wide = values.astype("int32") if kind.itemsize < 4 else values
    both = nd.stack(wide, -wide)
    detail = f"{call.detail}; average of {kind.name}".removeprefix("; ")
    pushed = push(replace(call, toward_zero=False, detail=detail), both, after)
    cut = nd.where(both[0] < 0, -both[1], both[0]).astype(kind)
    return scaled(cut, call.postscale), pushed


def exchange_in_place(call: Call, array: Array, is_plain: bool = False) -> None:
    """Overwrite a classic array with the result. `is_plain`: oneDNN has never chosen the layout of
    its memory, as it never does for the gradient of a parameter."""
    is_whole = call.prescale == call.postscale == 1.0 and not is_cut(call, data_type(array))
    if is_whole and _is_on_host(array) and (is_plain or not _may_be_odd(array)):
        push(call, array)
        return
    with autograd.pause():
        exchange(call, array).copyto(array)


def exchange_group(call: Call, arrays: Sequence[Array]) -> list[Array]:
    """Return new classic arrays on the CPU with the results of several, all or none."""
    detail = describe_tensors([(np.dtype(a.dtype).name, a.shape) for a in arrays])
    call = replace(call, detail=f"{call.detail}; {detail}".removeprefix("; "))
    # Without arrays, too: the others may have some, and must be told.
    groups = list(places_by_kind(np.dtype(array.dtype) for array in arrays).values()) or [[]]
    results: list[Array] = [None] * len(arrays)
    first: Pushed | None = None  # tells whether all ranks mean the same; the others wait for it
    for number, places in enumerate(groups):
        with autograd.pause():
            flat = _joined([arrays[place] for place in places])
            own = call if number == 0 else replace(call, name=f"{call.name}.{number}")
            result, pushed = _exchange(own, flat, first)
            if first is None:
                call, first = replace(call, name=pushed.name), pushed
            for place, part in zip(places, _cut(result, [arrays[p] for p in places]), strict=True):
                results[place] = part
    return results


def _joined(arrays: Sequence[Array]) -> Array:
    rows = [array.as_in_context(mx.cpu()).reshape((-1,)) for array in arrays]
    if not rows:
        return nd.zeros((1,))
    return rows[0] if len(rows) == 1 else nd.concat(*rows, dim=0)


def _cut(flat: Array, arrays: Sequence[Array]) -> list[Array]:
    ends = list(itertools.accumulate(array.size for array in arrays))
    return [
        # MXNet refuses a slice without elements.
        nd.slice_axis(flat, axis=0, begin=end - array.size, end=end).reshape(array.shape)
        if array.size
        else nd.zeros(array.shape, dtype=array.dtype)
        for array, end in zip(arrays, ends, strict=True)
    ]
