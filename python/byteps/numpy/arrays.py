"""Operations on arrays of numpy, and on whatever can be one without a copy.

Needs numpy. Adapters whose tensors are seen as arrays (DLPack, buffers) use these functions; what
an operation results in are new arrays, or those that the caller has given to be overwritten.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from byteps.common.errors import InvalidArgumentError
from byteps.common.operations.byte_rows import bytes_at
from byteps.common.operations.call import Call, divisor, is_cut, start, sum_of
from byteps.common.operations.groups import (
    Buffer,
    describe_tensors,
    places_by_kind,
    start_group,
)
from byteps.common.operations.part_frames import Part, heads, parts_of
from byteps.common.operations.splits import check_has_rows, rows_of
from byteps.common.session.flight import Flight
from byteps.common.session.pending import Handle
from byteps.common.types import DataType, Operation, moved_as, moved_detail
from byteps.numpy.memory import Array, aligned, aligned_copy, new_array

_HOST = 1  # kDLCPU
_DEVICE = "cpu"

# By name: numpy has no bfloat16 of its own, others register one.
_DATA_TYPES = {kind.name.lower(): kind for kind in DataType}


def data_type(array: Array) -> DataType:
    """Return the type of an array's elements; raise if they cannot be exchanged."""
    return data_type_of(array.dtype)


def data_type_of(dtype: np.dtype[Any]) -> DataType:
    """Return what numpy's type is; raise if arrays of it cannot be exchanged."""
    found = _DATA_TYPES.get(dtype.name)
    if found is None:
        raise InvalidArgumentError(
            f"arrays of {dtype} cannot be exchanged. Types: {', '.join(_DATA_TYPES)}; "
            "allgather_object and broadcast_object take any object."
        )
    return found


def as_array(value: Any, operation: Operation = Operation.SUM) -> Array:
    """Return an array with the value's memory if that is possible, else with its values.

    Raises InvalidArgumentError for what is no array in host memory whose elements the operation
    takes.
    """
    array = _view(value)
    _check_type(array, operation)
    return array


def _check_type(array: Array, operation: Operation) -> None:
    check_type(array.dtype, operation)


def check_type(dtype: np.dtype[Any], operation: Operation) -> None:
    """Raise if the operation cannot take elements of a type."""
    if moved_as(dtype.name, operation) is None:
        data_type_of(dtype)


def as_sent(call: Call, dtype: np.dtype[Any]) -> tuple[Call, DataType]:
    """Return the call that tells other ranks of an array's type, and the type as which it
    travels."""
    moved = moved_as(dtype.name, call.operation)
    if moved is None:
        return call, data_type_of(dtype)
    detail = f"{call.detail}; {moved_detail(dtype.name)}".removeprefix("; ")
    return replace(call, detail=detail), moved


def _view(value: Any) -> Array:
    if isinstance(value, np.ma.MaskedArray):
        raise InvalidArgumentError(
            "a masked array cannot be exchanged, because other ranks would see what its mask "
            "hides. Exchange array.filled(0), and the mask as an array of its own."
        )
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack_device__") and not isinstance(value, np.generic):
        kind, _ = value.__dlpack_device__()
        if kind != _HOST:
            raise InvalidArgumentError(
                f"this {type(value).__name__} is in the memory of a device; copy it to the host "
                "first, or use the module of its framework."
            )
        try:
            return np.from_dlpack(value)
        except Exception as error:
            raise InvalidArgumentError(
                f"this {type(value).__name__} cannot be seen as an array of numpy: {error}"
            ) from error
    try:
        return np.asarray(value)
    except ValueError as error:
        raise InvalidArgumentError(f"this is no array: {error}") from error


def writable(value: Any, operation: Operation = Operation.SUM) -> Array:
    """Return an array with the value's memory, for a result of the operation; raise if there is no
    such array."""
    array = _view(value) if hasattr(value, "__dlpack_device__") else value
    if not isinstance(array, np.ndarray):
        raise InvalidArgumentError(
            f"a {type(value).__name__} cannot be changed in place. Use the form that returns a new "
            "array."
        )
    _check_type(array, operation)
    if not array.flags.writeable:
        raise InvalidArgumentError(
            "this array cannot be changed in place: it is read-only. Use the form that returns a "
            "new array, or copy() it first."
        )
    steps = zip(array.strides, array.shape, strict=True)
    if array.size > 0 and any(stride == 0 and n > 1 for stride, n in steps):
        raise InvalidArgumentError(
            "this array cannot be changed in place, because several of its elements share one "
            "place in memory. Use the form that returns a new array, or copy() it first."
        )
    return array


def _is_plain(array: Array) -> bool:
    """Return whether the array's memory is its values, in order."""
    return bool(array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative)


def _memory(array: Array) -> Array:
    """Return contiguous memory with the array's values: its own where possible."""
    array = np.asarray(array)  # a matrix keeps two dimensions, whatever shape it is given
    if _is_plain(array):
        return array
    return np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)


def _address(array: Array) -> int:
    return int(array.ctypes.data)


def scaled(array: Array, factor: float) -> Array:
    """Return array * factor in the array's type. Integers are cut toward zero."""
    if factor == 1.0:
        return array
    kind = array.dtype
    if kind.name.startswith(("int", "uint")):
        return np.asarray(array.astype(np.float64) * factor).astype(kind)
    # Of two bytes, the product is rounded once.
    wide = np.dtype(np.float32) if kind.itemsize == 2 else kind
    return np.asarray(array.astype(wide, copy=False) * wide.type(factor)).astype(kind, copy=False)


def check_scalable(dtype: np.dtype[Any], call: Call) -> None:
    """Raise if the call has factors and the type no multiples."""
    factors = (call.prescale, call.postscale)
    if dtype == np.bool_ and factors != (1.0, 1.0):
        raise InvalidArgumentError(
            f"an array of bool cannot be scaled: prescale_factor is {factors[0]}, postscale_factor "
            f"is {factors[1]}."
        )


def _cut_average(call: Call, total: Array, members: Sequence[int]) -> Array:
    """Return the sum over the ranks `members` divided by their number, cut toward zero."""
    count = divisor(call.process_set, members)
    down = np.asarray(total // count)
    return np.asarray(down + ((total < 0) & (down * count != total)))


# Results of the tensor's own shape.


def start_exchange(call: Call, array: Array, output: Array | None = None) -> Handle[Array]:
    """Start an operation whose result has the array's shape; without `output`, a new array."""
    call, dtype = as_sent(call, array.dtype)
    check_scalable(array.dtype, call)
    if is_cut(call, dtype):
        return _start_cut(call, dtype, array, output)
    source = scaled(_memory(array), call.prescale)
    result = new_array(array.shape, _own_type(array)) if output is None else output
    target = result if _is_plain(result) else np.empty(array.shape, _own_type(array))

    def finish(_: Flight) -> Array:
        if target is not result or call.postscale != 1.0:
            result[...] = scaled(target, call.postscale)
        return result

    places = (_address(source), _address(target))
    return start(call, _DEVICE, dtype, array.shape, *places, finish, (array, source, target))


def _own_type(array: Array) -> np.dtype[Any]:
    return array.dtype.newbyteorder("=")


def _start_cut(call: Call, dtype: DataType, array: Array, output: Array | None) -> Handle[Array]:
    total = scaled(array.astype(np.int64, order="C"), call.prescale)
    result = new_array(array.shape, _own_type(array)) if output is None else output

    def finish(flight: Flight) -> Array:
        result[...] = scaled(_cut_average(call, total, flight.members()), call.postscale)
        return result

    place = _address(total)
    sums = sum_of(call, dtype)
    keep = (array, total)
    return start(sums, _DEVICE, DataType.INT64, array.shape, place, place, finish, keep)


def start_group_exchange(
    call: Call, arrays: Sequence[Array], outputs: Sequence[Array] | None = None
) -> Handle[list[Array]]:
    """Start to combine several arrays, all or none; without `outputs`, into new ones."""
    for array in arrays:
        data_type(array)
        check_scalable(array.dtype, call)
    results = [new_array(a.shape, _own_type(a)) for a in arrays] if outputs is None else outputs
    call = replace(call, detail=_describe(arrays))
    # Without arrays, too: the others may have some, and must be told.
    places = list(places_by_kind(_own_type(array) for array in arrays).values()) or [[]]
    packs = [_Pack([arrays[i] for i in group], call) for group in places]

    def finish(flight: Flight) -> list[Array]:
        for number, (pack, group) in enumerate(zip(packs, places, strict=True)):
            pack.unpack([results[i] for i in group], flight.members_of(number))
        return list(results)

    return start_group(packs, call, _DEVICE, finish, list(arrays))


def _describe(arrays: Sequence[Array]) -> str:
    return describe_tensors([(array.dtype.name, array.shape) for array in arrays])


class _Pack:
    """Arrays of one type, one after the other in one buffer."""

    def __init__(self, arrays: Sequence[Array], call: Call) -> None:
        flat = _joined([_memory(array).reshape(-1) for array in arrays])
        self._dtype = data_type(flat)
        self._is_cut = is_cut(call, self._dtype)
        self._flat = scaled(flat.astype(np.int64) if self._is_cut else flat, call.prescale)
        self._call = call

    def call(self, call: Call) -> Call:
        """Return the call of the operation."""
        return sum_of(call, self._dtype) if self._is_cut else call

    def buffer(self) -> Buffer:
        """Return the buffer, which is combined in place."""
        place = _address(self._flat)
        return Buffer(data_type(self._flat), self._flat.shape, place, place)

    def unpack(self, outputs: Sequence[Array], members: list[int]) -> None:
        """Copy the results, which have contributions of `members`, to where they belong."""
        flat = self._flat
        if self._is_cut:
            flat = _cut_average(self._call, flat, members)
        flat = scaled(flat, self._call.postscale)
        for output, piece in zip(outputs, _cut([o.size for o in outputs], flat), strict=True):
            output[...] = piece.reshape(output.shape)


def _joined(parts: Sequence[Array]) -> Array:
    """Return the parts in one new row; none of them is a row of float32."""
    return np.concatenate(parts) if parts else np.empty(0, np.float32)


def _cut(counts: Sequence[int], flat: Array) -> list[Array]:
    ends = list(itertools.accumulate(counts))
    return [flat[end - count : end] for count, end in zip(counts, ends, strict=True)]


# Results with other rows.


def start_gather(call: Call, array: Array) -> Handle[Array]:
    """Start to join the rows of all ranks."""
    return _start_rows(call, array.reshape(1) if array.ndim == 0 else array, lambda rows, _: rows)


def start_counted_gather(call: Call, array: Array) -> Handle[tuple[Array, Array]]:
    """Do `start_gather`; the result is the rows, and the number of rows from each rank."""
    return start_alltoall(call, array.reshape(1) if array.ndim == 0 else array)


def start_alltoall(call: Call, array: Array) -> Handle[tuple[Array, Array]]:
    """Start to give each rank some rows, as `call.splits` says; the result is the rows, and the
    number of rows from each rank."""
    return _start_rows(call, array, lambda rows, counts: (rows, np.array(counts, np.int32)))


def _start_rows(
    call: Call, array: Array, then: Callable[[Array, list[int]], object]
) -> Handle[Any]:
    call, dtype = as_sent(call, array.dtype)
    source = _memory(array)

    def finish(flight: Flight) -> object:
        return then(received(flight, source.shape, source.dtype), flight.rows_of_ranks())

    place = _address(source)
    return start(call, _DEVICE, dtype, source.shape, place, finish=finish, keep_alive=source)


def received(flight: Flight, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Return the rows that a complete operation has brought: as many as came, else as `shape`."""
    size_bytes, count = flight.rows()
    rows = new_array((count, *shape[1:]), dtype)
    flight.copy_rows(_address(rows), size_bytes)
    return rows


def start_group_gather(call: Call, arrays: Sequence[Array]) -> Handle[list[Array]]:
    """Start to join the rows of several arrays, all or none: they travel as one row of bytes."""
    for array in arrays:
        _check_type(array, call.operation)
    rows = [_memory(array.reshape(1) if array.ndim == 0 else array) for array in arrays]
    texts = [f"{a.dtype.name}[{', '.join(['*', *map(str, a.shape[1:])])}]" for a in rows]
    call = replace(call, detail=f"{len(rows)} tensors: {', '.join(texts)}")
    head = np.frombuffer(heads([len(array) for array in rows]), np.uint8)
    sent = np.concatenate([head, *[array.reshape(-1).view(np.uint8) for array in rows]])
    lengths = [math.prod(array.shape[1:]) * array.itemsize for array in rows]

    def finish(joined: Array, _: list[int]) -> list[Array]:
        received = bytes_at(_address(joined), joined.size)
        pairs = zip(rows, parts_of(received, lengths), strict=True)
        return [_unpacked(joined, parts, array) for array, parts in pairs]

    return _start_rows(call, sent, finish)


def _unpacked(joined: Array, parts: Sequence[Part], like: Array) -> Array:
    """Return the rows that stand in some parts of `joined`, which is bytes."""
    found = new_array((sum(part.rows for part in parts), *like.shape[1:]), like.dtype)
    room: Array = found.reshape(-1).view(np.uint8)
    begin = 0
    for part in parts:
        count = part.end - part.begin
        room[begin : begin + count] = joined[part.begin : part.end]
        begin += count
    return found


def start_scatter(call: Call, array: Array) -> Handle[Array]:
    """Start to combine an array of which each rank gets some rows."""
    dtype = data_type(array)
    check_has_rows(array.shape)
    check_scalable(array.dtype, call)
    source = scaled(_memory(array), call.prescale)
    rows = rows_of(call.process_set.rank(), call.process_set.size(), len(array))
    target = new_array((rows, *array.shape[1:]), source.dtype)
    places = (_address(source), _address(target))

    def finish(_: Flight) -> Array:
        return aligned(scaled(target, call.postscale))

    return start(call, _DEVICE, dtype, array.shape, *places, finish, (array, source, target))


def start_group_scatter(call: Call, arrays: Sequence[Array]) -> Handle[list[Array]]:
    """Start to combine several arrays of which each rank gets some rows, all or none."""
    for array in arrays:
        data_type(array)
        check_has_rows(array.shape)
        check_scalable(array.dtype, call)
    call = replace(call, detail=_describe(arrays))
    places = list(places_by_kind(_own_type(array) for array in arrays).values()) or [[]]
    packs = [_ScatterPack([_memory(arrays[i]) for i in group], call) for group in places]

    def finish(_: Flight) -> list[Array]:
        results: list[Any] = [None] * len(arrays)
        for group, pack in zip(places, packs, strict=True):
            for index, part in zip(group, pack.parts(), strict=True):
                results[index] = part
        return results

    return start_group(packs, call, _DEVICE, finish)


class _ScatterPack:
    """Arrays of one type: for each rank its rows of all of them, filled up to equal lengths."""

    def __init__(self, arrays: Sequence[Array], call: Call) -> None:
        count, place = call.process_set.size(), call.process_set.rank()
        self._postscale = call.postscale
        shares = [
            _cut([rows_of(rank, count, len(array)) for rank in range(count)], array)
            for array in arrays
        ]
        ranks = [_joined([share[rank].reshape(-1) for share in shares]) for rank in range(count)]
        packed = np.zeros((count, max(len(row) for row in ranks)), ranks[0].dtype)
        for row, values in zip(packed, ranks, strict=True):
            row[: len(values)] = values
        self._source = scaled(packed, call.prescale)
        self._target = np.empty(packed.shape[1:], packed.dtype)
        self._shapes = [share[place].shape for share in shares]

    def call(self, call: Call) -> Call:
        """Return the call of the operation."""
        return call

    def buffer(self) -> Buffer:
        """Return the buffer, of which each rank gets a row."""
        source = self._source
        return Buffer(data_type(source), source.shape, _address(source), _address(self._target))

    def parts(self) -> list[Array]:
        """Return this rank's rows of each array."""
        pieces = _cut([math.prod(s) for s in self._shapes], scaled(self._target, self._postscale))
        return [aligned_copy(p.reshape(s)) for p, s in zip(pieces, self._shapes, strict=True)]
