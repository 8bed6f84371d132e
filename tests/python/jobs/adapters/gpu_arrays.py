"""Arrays in the memory of the stand-in for the CUDA driver (tests/cuda_standin/), as a library such
as CuPy has them: each thread of the program gives its work to a stream, which runs late.

Whoever reads an array without waiting for the stream finds what was there before.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes  # noqa: F401  # it tells numpy of bfloat16
import numpy as np

_NON_BLOCKING = 1
_LEGACY = 1
_CUDA = 2
_CODES = {"i": 0, "u": 1, "f": 2, "V": 4, "b": 6}  # numpy's kinds; V is bfloat16
_POISON = 0xDB
_PINNED_BYTES = 32 << 20


class _Tensor(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Tensor))
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)(
    ("PyCapsule_New", ctypes.pythonapi)
)
# Of a capsule that is going away, and must not be referred to.
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_pointer_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_NAME = b"dltensor"
_Tensor._fields_ = [
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
    ("manager", ctypes.c_void_p),
    ("deleter", _Deleter),
]


class Counts(ctypes.Structure):
    """What the driver has handed out; see standin.h."""

    _fields_ = (
        ("contexts", ctypes.c_int),
        ("streams", ctypes.c_int),
        ("events", ctypes.c_int),
        ("pinned_bytes", ctypes.c_size_t),
        ("device_bytes", ctypes.c_size_t),
        ("copies", ctypes.c_uint64),
        ("pageable_copies", ctypes.c_uint64),
        ("failures", ctypes.c_size_t),
    )


class Gpu:
    """The program's side of the driver: memory of one device, and a stream."""

    def __init__(self, file: str, device: int = 0) -> None:
        self.driver = ctypes.CDLL(file)
        self.driver.stand_in_bytes.restype = ctypes.c_void_p
        self.driver.stand_in_bytes.argtypes = [ctypes.c_uint64]
        self.driver.stand_in_count.restype = Counts
        self.device = device
        self.context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.call("cuCtxSetCurrent", self.context)
        self.stream, self.event = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(self.stream), _NON_BLOCKING)
        self.call("cuEventCreate", ctypes.byref(self.event), 0)
        # At once, because whoever asks for such memory waits for all streams.
        self.pinned, self.used = ctypes.c_void_p(), 0
        size = ctypes.c_size_t(_PINNED_BYTES)
        self.call("cuMemHostAlloc", ctypes.byref(self.pinned), size, 0)

    def call(self, function: str, *arguments: object) -> None:
        code = getattr(self.driver, function)(*arguments)
        assert code == 0, (function, code)

    def counts(self) -> Counts:
        return self.driver.stand_in_count()

    def late(self, seed: int, microseconds_max: int) -> None:
        self.driver.stand_in_delay(ctypes.c_uint64(seed), ctypes.c_uint64(microseconds_max))

    def take(self, size_bytes: int) -> int:
        address = ctypes.c_uint64()
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(1, size_bytes)))
        own = self.driver.stand_in_bytes(address.value)
        ctypes.memset(own, _POISON, size_bytes)
        return address.value

    def write(self, address: int, values: np.ndarray) -> None:
        """Give the stream a copy of the values."""
        if not values.nbytes:
            return
        self.call("cuCtxSetCurrent", self.context)
        if self.used + values.nbytes > _PINNED_BYTES:
            self.call("cuStreamSynchronize", self.stream)
            self.used = 0
        pinned = (self.pinned.value or 0) + self.used
        self.used += values.nbytes
        ctypes.memmove(pinned, values.ctypes.data, values.nbytes)
        size = ctypes.c_size_t(values.nbytes)
        to, source = ctypes.c_uint64(address), ctypes.c_uint64(pinned)
        self.call("cuMemcpyAsync", to, source, size, self.stream)

    def let_default_wait(self) -> None:
        """Let the default stream wait for what this program's stream has now."""
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuEventRecord", self.event, self.stream)
        self.call("cuStreamWaitEvent", None, self.event, 0)

    def read(self, address: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return what the memory has now; waits for nothing."""
        count = int(np.prod(shape, dtype=np.int64))
        if not count:
            return np.empty(shape, dtype)
        own = self.driver.stand_in_bytes(address)
        assert own, "this is no memory of the device"
        memory = (ctypes.c_uint8 * (count * np.dtype(dtype).itemsize)).from_address(own)
        return np.frombuffer(memory, dtype, count).reshape(shape).copy()


_alive: dict[int, tuple[object, ...]] = {}  # what capsules keep


def _on_delete(tensor: Any) -> None:
    _alive.pop(ctypes.addressof(tensor.contents))


def _on_capsule(capsule: int) -> None:
    _alive.pop(_get_pointer(capsule, _NAME))


_deleter, _destructor = _Deleter(_on_delete), _Destructor(_on_capsule)


class GpuArray:
    """An array on the device that speaks DLPack of before version 1.0, as old CuPy does."""

    def __init__(
        self, gpu: Gpu, values: Any, dtype: Any = None, steps: tuple[int, ...] | None = None
    ) -> None:
        values = np.array(values, dtype, order="C")
        self.gpu, self.shape, self.dtype = gpu, values.shape, values.dtype
        self.values = values
        self.claims = gpu.device  # which device it says that it is on
        self.steps = steps
        self.address = gpu.take(values.nbytes)
        gpu.write(self.address, values)

    def now(self) -> np.ndarray:
        """Return what its memory has, without a wait."""
        return self.gpu.read(self.address, self.shape, self.dtype)

    def free(self) -> None:
        """Give the memory back while somebody has the array."""
        self.gpu.call("cuStreamSynchronize", self.gpu.stream)
        self.gpu.call("cuMemFree_v2", ctypes.c_uint64(self.address))

    def __del__(self) -> None:
        # As in a pool, the next one who uses the memory writes to it at once.
        own = self.gpu.driver.stand_in_bytes(self.address)
        if own:
            ctypes.memset(own, _POISON, int(np.prod(self.shape)) * self.dtype.itemsize)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self.claims

    def __dlpack__(self, stream: int | None = None) -> object:
        assert stream == _LEGACY, "it says which stream will use the memory"
        self.gpu.let_default_wait()
        count = len(self.shape)
        shape = (ctypes.c_int64 * count)(*self.shape)
        steps = None if self.steps is None else (ctypes.c_int64 * count)(*self.steps)
        code, bits = _CODES[self.dtype.kind], 8 * self.dtype.itemsize
        made = _Tensor(
            self.address, _CUDA, self.claims, count, code, bits, 1, shape, steps, 0, None,
            _deleter,
        )  # fmt: skip
        _alive[ctypes.addressof(made)] = (made, shape, steps, self)
        return _new_capsule(ctypes.addressof(made), _NAME, _destructor)


class InterfaceArray:
    """An array on the device that has `__cuda_array_interface__` only, as those of Numba."""

    def __init__(self, gpu: Gpu, values: Any, read_only: bool = False) -> None:
        self.own = GpuArray(gpu, values)
        self.read_only = read_only
        self.stream = gpu.stream.value

    def wait(self) -> None:
        self.own.gpu.call("cuStreamSynchronize", self.own.gpu.stream)
        self.stream = None

    def now(self) -> np.ndarray:
        return self.own.now()

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        own = self.own
        return {
            "shape": own.shape,
            "typestr": own.dtype.str,
            "data": (own.address, self.read_only),
            "strides": None,
            "stream": self.stream,
            "version": 3,
        }


def from_dlpack(value: Any) -> Taken:
    """Take memory over, as libraries with arrays of their own do."""
    return Taken(value)


class Taken:
    """What `from_dlpack` makes."""

    def __init__(self, value: Any) -> None:
        self.capsule = value.__dlpack__(stream=2, max_version=(1, 0))
        tensor = _Tensor.from_address(_pointer_in(self.capsule, _NAME))
        assert (tensor.device_type, tensor.lanes) == (_CUDA, 1)
        self.device = tensor.device
        self.shape = tuple(tensor.shape[: tensor.dimensions])
        kind = {code: kind for kind, code in _CODES.items()}[tensor.code]
        names = {"b": "bool", "V": "bfloat16"}
        self.dtype = np.dtype(names.get(kind, f"{kind}{tensor.bits // 8}"))
        self.address = (tensor.data or 0) + tensor.byte_offset
