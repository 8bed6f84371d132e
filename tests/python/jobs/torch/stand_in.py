"""The stand-in for the CUDA driver (tests/cuda_standin/) and tensors of torch in its memory.

A processor that touches such a tensor dies, and torch has no operation for it. So a tensor can be
given to byteps and not be computed with; `fill` and `read` are what kernels would do.
"""

from __future__ import annotations

import ctypes
import types
from pathlib import Path

import torch

_EXTENSION = 12  # kDLExtDev: a device that somebody else has defined
_FLOAT = 2
_NON_BLOCKING = 1
_NAME = b"dltensor"  # the capsule has a pointer to it


class _Tensor(ctypes.Structure):
    _fields_ = [
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
        ("deleter", ctypes.c_void_p),
    ]


def library() -> Path | None:
    """Return the file of the stand-in, where the build of the tests in C++ has it."""
    build = Path(__file__).resolve().parents[4] / "build"
    file = build / "tests/cuda_standin/libbyteps_cuda_standin.so"
    return file if file.exists() else None


class StandIn:
    """The driver as a program sees it, with the device `standin` of torch."""

    def __init__(self, file: str, device: int) -> None:
        self._driver = ctypes.CDLL(file)
        self._driver.stand_in_bytes.restype = ctypes.c_void_p
        self._driver.stand_in_bytes.argtypes = [ctypes.c_uint64]
        self.device = device
        context = ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self._stream = ctypes.c_void_p()
        self._call("cuStreamCreate", ctypes.byref(self._stream), _NON_BLOCKING)
        self._kept: list[object] = []
        torch.utils.rename_privateuse1_backend("standin")
        module = types.ModuleType("standin")
        module._is_in_bad_fork = lambda: False  # type: ignore[attr-defined]
        torch._register_device_module("standin", module)

    @property
    def stream(self) -> int:
        """The stream of this program."""
        return self._stream.value or 0

    def late(self, seed: int, microseconds_max: int) -> None:
        """Let streams wait before each item."""
        self._driver.stand_in_delay(ctypes.c_uint64(seed), ctypes.c_uint64(microseconds_max))

    def tensor(self, count: int) -> torch.Tensor:
        """Return a tensor of so many float32 in the device's memory."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4 * count))
        shape = (ctypes.c_int64 * 1)(count)
        made = _Tensor(
            address.value, _EXTENSION, self.device, 1, _FLOAT, 32, 1, shape, None, 0, None, None
        )
        self._kept += [made, shape]
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.restype = ctypes.py_object
        new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return torch.from_dlpack(new_capsule(ctypes.addressof(made), _NAME, None))

    def fill(self, tensor: torch.Tensor, value: float) -> None:
        """Give the stream a kernel that fills the tensor; does not wait for it."""
        bits = ctypes.c_uint32.from_buffer_copy(ctypes.c_float(value))
        self._call(
            "cuMemsetD32Async",
            ctypes.c_uint64(tensor.data_ptr()),
            bits,
            ctypes.c_size_t(tensor.numel()),
            self._stream,
        )

    def read(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return what lies in the tensor now, without waiting for a stream."""
        place = self._driver.stand_in_bytes(tensor.data_ptr())
        copied = bytearray(ctypes.string_at(place, tensor.nbytes))
        return torch.frombuffer(copied, dtype=torch.float32)

    def _call(self, function: str, *arguments: object) -> None:
        code = getattr(self._driver, function)(*arguments)
        if code != 0:
            raise RuntimeError(f"{function}: {code}")
