"""Arrays in the memory of a GPU, as they come from CuPy, Numba and others, and as results go back.

They come by DLPack or by `__cuda_array_interface__`, with what their library has given to a stream
and has not done yet.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from byteps.common.cuda_memory import NO_STREAM, DeviceMemory, to_device, to_host
from byteps.common.devices import DevicePlace
from byteps.common.errors import InvalidArgumentError
from byteps.numpy.memory import Array, new_array

_CUDA = 2  # kDLCUDA
_LEGACY_STREAM = 1  # in both protocols: the default stream, which waits for others, and they for it
_DEFAULT = 0
_VERSION = (1, 0)
_READ_ONLY = 1
_IS_COPY = 2

# DLPack's codes and bits.
_NAMES = {
    **{(0, bits): f"int{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"float{bits}" for bits in (16, 32, 64)},
    (4, 16): "bfloat16",
    (6, 8): "bool",
}
_CODES = {name: pair for pair, name in _NAMES.items()}


@dataclass(frozen=True)
class DeviceView:
    """Contiguous memory of a GPU, as an array."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    place: DevicePlace
    given: Any  # what the user has; it keeps the memory
    is_writable: bool
    # Makes room for a result with a shape and a type, beside this array: it, and what users get.
    make: Callable[[Sequence[int], np.dtype[Any]], DeviceView]
    keep: object = None

    @property
    def ndim(self) -> int:
        """The number of its dimensions."""
        return len(self.shape)

    @property
    def size_bytes(self) -> int:
        """The bytes of its elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    def with_rows(self) -> DeviceView:
        """Return the same with a dimension at least."""
        return self if self.shape else replace(self, shape=(1,))

    def on_host(self) -> Array:
        """Return a copy in host memory; waits for the stream."""
        copy = new_array(self.shape, self.dtype)
        to_host(self.address, self.place, int(copy.ctypes.data), self.size_bytes)
        return copy

    def fill(self, values: Array) -> Any:
        """Overwrite it with values of the host; return what the user has."""
        memory = np.ascontiguousarray(values, self.dtype)
        to_device(int(memory.ctypes.data), self.place.device, self.address, self.size_bytes)
        return self.given


class DeviceArray:
    """A result in the memory of a GPU, for a library that takes it over.

    `cupy.from_dlpack(result)`, `numba.cuda.as_cuda_array(result)` and `torch.from_dlpack(result)`
    have the same memory. It is complete: any stream may read it.
    """

    def __init__(self, shape: Sequence[int], dtype: np.dtype[Any], device: int) -> None:
        """Take memory of a GPU."""
        self.shape = tuple(shape)
        self.dtype = dtype
        self.device = device
        self._memory = DeviceMemory(device, math.prod(shape) * dtype.itemsize)

    @property
    def address(self) -> int:
        """Where its memory is."""
        return self._memory.address

    def numpy(self) -> Array:
        """Return the values as an array of numpy."""
        return view_of(self).on_host()

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return which device has the memory, in numbers of DLPack."""
        return _CUDA, self.device

    def __dlpack__(self, **_: object) -> Any:
        """Return a capsule, which keeps the memory. Whatever stream asks, the values are there."""
        return self._memory.capsule(*_CODES[self.dtype.name], self.shape)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """What Numba and CuPy ask for; without a stream, because the values are there."""
        if self.dtype.name not in _CODES or self.dtype.kind == "V":
            raise AttributeError(f"this interface has no {self.dtype.name}; use DLPack")
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "stream": None,
            "version": 3,
        }


def is_on_device(value: Any) -> bool:
    """Return whether a value is an array in the memory of a GPU of CUDA."""
    if isinstance(value, (np.ndarray, np.generic)):
        return False
    if hasattr(value, "__dlpack_device__"):
        return bool(value.__dlpack_device__()[0] == _CUDA)
    return hasattr(value, "__cuda_array_interface__")


def view_of(value: Any) -> DeviceView:
    """Return the memory of an array on a GPU; raise for what cannot be exchanged as it is."""
    return _by_dlpack(value) if hasattr(value, "__dlpack__") else _by_interface(value)


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


def _by_dlpack(value: Any) -> DeviceView:
    # Who keeps the capsule has the memory; nobody takes the tensor out of it.
    try:
        capsule = value.__dlpack__(stream=_LEGACY_STREAM, max_version=_VERSION)
    except TypeError:  # of before DLPack 1.0
        capsule = value.__dlpack__(stream=_LEGACY_STREAM)
    is_writable = True
    versioned = _pointer_in(capsule, b"dltensor_versioned")
    if versioned:
        whole = _Versioned.from_address(versioned)
        tensor, is_writable = whole.tensor, not whole.flags & (_READ_ONLY | _IS_COPY)
    else:
        tensor = _Tensor.from_address(_pointer_in(capsule, b"dltensor"))
    name = _NAMES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if name is None:
        raise InvalidArgumentError(
            f"this {type(value).__name__} has elements of a type that cannot be exchanged: code "
            f"{tensor.code} of DLPack, {tensor.bits} bits, {tensor.lanes} lanes. Types: "
            f"{', '.join(_CODES)}."
        )
    dtype = _dtype_of(name)
    shape = tuple(tensor.shape[: tensor.dimensions])
    strides = tuple(tensor.strides[: tensor.dimensions]) if tensor.strides else None
    _check_order(value, shape, strides)
    address = (tensor.data or 0) + tensor.byte_offset
    place = DevicePlace(tensor.device, _DEFAULT)
    return _view(value, address, shape, dtype, place, is_writable, capsule)


# Functions of our own: others may give those of ctypes.pythonapi other types.
_OF_CAPSULE = ctypes.py_object, ctypes.c_char_p
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, *_OF_CAPSULE)(("PyCapsule_IsValid", ctypes.pythonapi))
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, *_OF_CAPSULE)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _pointer_in(capsule: Any, name: bytes) -> int:
    return (_get_pointer(capsule, name) or 0) if _is_valid(capsule, name) else 0


def _dtype_of(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise InvalidArgumentError(
                "arrays of bfloat16 need the package ml_dtypes, which tells numpy of them: "
                "pip install ml_dtypes."
            ) from error
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def _by_interface(value: Any) -> DeviceView:
    found = value.__cuda_array_interface__
    dtype, shape = np.dtype(found["typestr"]), tuple(found["shape"])
    address, is_read_only = found["data"]
    steps = found.get("strides")
    # Bytes here, elements in DLPack.
    strides = None if steps is None else tuple(step // dtype.itemsize for step in steps)
    _check_order(value, shape, strides)
    if not dtype.isnative:
        raise InvalidArgumentError(
            f"this {type(value).__name__} has the byte order of another machine. Exchange "
            "array.astype(array.dtype.newbyteorder('='))."
        )
    if found.get("mask") is not None:
        raise InvalidArgumentError(
            "a masked array cannot be exchanged, because other ranks would see what its mask hides."
        )
    stream = found.get("stream", _LEGACY_STREAM if found["version"] < 3 else None)
    known = {None: NO_STREAM, _LEGACY_STREAM: _DEFAULT}
    place = DevicePlace(_device_of(value, address), known.get(stream, stream))
    return _view(value, address or 0, shape, dtype, place, not is_read_only, None)


def _device_of(value: Any, address: int) -> int:
    from byteps.common.cuda_memory import device_of

    try:
        return device_of(address) if address else 0
    except Exception as error:
        raise InvalidArgumentError(
            f"the memory of this {type(value).__name__} is no memory of a GPU: {error}"
        ) from error


def _check_order(value: Any, shape: Sequence[int], strides: Sequence[int] | None) -> None:
    if strides is None or 0 in shape:
        return
    step = 1
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length > 1 and stride != step:
            raise InvalidArgumentError(
                f"this {type(value).__name__} is not contiguous in the memory of its GPU. Exchange "
                "a contiguous copy, as ascontiguousarray() of its library makes it."
            )
        step *= length


def _view(
    value: Any,
    address: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    place: DevicePlace,
    is_writable: bool,
    keep: object,
) -> DeviceView:
    def make(wanted: Sequence[int], kind: np.dtype[Any]) -> DeviceView:
        room = DeviceArray(wanted, kind, place.device)
        where = DevicePlace(place.device, NO_STREAM)
        given = _taken_over(room, value)
        return DeviceView(room.address, room.shape, kind, where, given, True, make, room)

    return DeviceView(address, shape, dtype, place, value, is_writable, make, (value, keep))


def _taken_over(room: DeviceArray, like: Any) -> Any:
    """Return the memory as an array of the library that has another one, if it takes it over."""
    library = sys.modules.get(type(like).__module__.partition(".")[0])
    take = getattr(library, "from_dlpack", None)
    return room if take is None or isinstance(like, DeviceArray) else take(room)
