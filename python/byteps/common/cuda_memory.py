"""Memory of GPUs that results take, and copies between it and the host's.

Only calls of users come here, on threads of their own: any call of the driver may wait for the GPU.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache

from byteps.common.devices import DevicePlace
from byteps.common.errors import InvalidArgumentError, UnavailableError

NO_STREAM = (1 << 64) - 1  # BYTEPS_NO_STREAM, in place of a stream: the memory is ready

_NON_BLOCKING = 1
_RELAXED = 2
_DEVICE_ORDINAL = 9
_MEMORY_MIN_BYTES = 1
_OUT_OF_MEMORY = 2
_NO_SUCH_DEVICE = 101


class DeviceMemory:
    """Memory of a GPU, which is free when nobody has this any more."""

    def __init__(self, device: int, size_bytes: int) -> None:
        """Take it; raise UnavailableError if the GPU has not so much."""
        self.device = device
        driver = _driver()
        place = ctypes.c_uint64()
        with driver.on(device):
            size = ctypes.c_size_t(max(size_bytes, _MEMORY_MIN_BYTES))
            driver.call("cuMemAlloc_v2", ctypes.byref(place), size, what=f"{size_bytes} bytes")
        self.address = place.value
        weakref.finalize(self, driver.free, device, place.value).atexit = False

    def capsule(self, code: int, bits: int, shape: Sequence[int]) -> object:
        """Return a capsule of DLPack, which keeps the memory; code and bits are the type."""
        from byteps import _core

        return _core.device_capsule(self.address, code, bits, shape, self.device, self)


def to_host(source: int, place: DevicePlace, target: int, size_bytes: int) -> None:
    """Copy to host memory what the place's stream has written to the GPU's."""
    if size_bytes:
        driver = _driver()
        with driver.on(place.device) as own_stream:
            stream = own_stream if place.stream == NO_STREAM else ctypes.c_void_p(place.stream)
            driver.copy(target, source, size_bytes, stream)


def to_device(source: int, device: int, target: int, size_bytes: int) -> None:
    """Copy host memory to a GPU's, which no stream uses."""
    if size_bytes:
        driver = _driver()
        with driver.on(device) as own_stream:
            driver.copy(target, source, size_bytes, own_stream)


def device_of(address: int) -> int:
    """Return the number of the GPU whose memory has this address; raise if none has it."""
    driver = _driver()
    number = ctypes.c_int()
    places = (ctypes.byref(number), _DEVICE_ORDINAL, ctypes.c_uint64(address))
    # Who has an array has a context, too, mostly on this thread.
    with nullcontext() if driver.has_context() else driver.on(0):
        driver.call("cuPointerGetAttribute", *places, what="the GPU of an address")
    return number.value


class _Driver:
    """The CUDA driver, as far as results need it. Any thread."""

    def __init__(self, file: str) -> None:
        try:
            self._library = ctypes.CDLL(file)
        except OSError as error:
            raise InvalidArgumentError(
                f"this array is in the memory of a GPU, but there is no CUDA driver: {error}"
            ) from error
        self._lock = threading.Lock()
        self._contexts: dict[int, tuple[ctypes.c_void_p, ctypes.c_void_p]] = {}
        self.call("cuInit", 0, what="the start of the driver")

    def call(self, function: str, *arguments: object, what: str) -> None:
        """Call a function of the driver; raise if it fails."""
        code = getattr(self._library, function)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(text))
            reason = (text.value or b"").decode() or f"error {code}"
            if code == _OUT_OF_MEMORY:
                reason += ". Free other arrays, or use the form that changes its input in place"
            kind = InvalidArgumentError if code == _NO_SUCH_DEVICE else UnavailableError
            raise kind(f"the CUDA driver refused {what}: {reason} ({function})")

    @contextmanager
    def on(self, device: int) -> Iterator[ctypes.c_void_p]:
        """Make the GPU's context that of the thread for a while; gives a stream of our own."""
        context, stream = self._context(device)
        before, mode = ctypes.c_void_p(), ctypes.c_int(_RELAXED)
        self.call("cuCtxGetCurrent", ctypes.byref(before), what="the context of a thread")
        self.call("cuCtxSetCurrent", context, what=f"the context of cuda:{device}")
        exchange = "cuThreadExchangeStreamCaptureMode"  # captures of other threads go on
        self.call(exchange, ctypes.byref(mode), what="a mode of captures")
        try:
            yield stream
        finally:
            self._library.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
            self._library.cuCtxSetCurrent(before)

    def has_context(self) -> bool:
        """Return whether the calling thread has a context, of whatever GPU."""
        current = ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(current), what="the context of a thread")
        return bool(current.value)

    def copy(self, to: int, source: int, size_bytes: int, stream: ctypes.c_void_p) -> None:
        """Copy behind what the stream has, and wait for it. REQUIRES: `on` its device."""
        places = (ctypes.c_uint64(to), ctypes.c_uint64(source))
        self.call("cuMemcpyAsync", *places, ctypes.c_size_t(size_bytes), stream, what="a copy")
        self.call("cuStreamSynchronize", stream, what="a copy")

    def free(self, device: int, address: int) -> None:
        """Give memory back, also in the middle of the process' end."""
        try:
            with self.on(device):
                self._library.cuMemFree_v2(ctypes.c_uint64(address))
        except Exception:  # the driver has gone, and the memory with it
            return

    def _context(self, device: int) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        with self._lock:
            if device not in self._contexts:
                self._contexts[device] = self._retained(device)
            return self._contexts[device]

    def _retained(self, device: int) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        """Return the context that all libraries share, and a stream in it."""
        ordinal, before = ctypes.c_int(), ctypes.c_void_p()
        context, stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(ordinal), device, what=f"cuda:{device}")
        retain = "cuDevicePrimaryCtxRetain"
        self.call(retain, ctypes.byref(context), ordinal, what=f"a context on cuda:{device}")
        self.call("cuCtxGetCurrent", ctypes.byref(before), what="the context of a thread")
        self.call("cuCtxSetCurrent", context, what=f"the context of cuda:{device}")
        try:
            create = "cuStreamCreateWithPriority"
            self.call(create, ctypes.byref(stream), _NON_BLOCKING, 0, what="a stream")
        finally:
            self._library.cuCtxSetCurrent(before)
        return context, stream


@cache
def _driver() -> _Driver:
    return _Driver(os.environ.get("BYTEPS_CUDA_LIBRARY") or "libcuda.so.1")
