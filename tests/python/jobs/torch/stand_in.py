"""The stand-in for the CUDA driver (tests/cuda_standin/) as the device `standin` of torch.

Tensors lie in device memory, which a processor that touches it does not survive. One kernel stands
for all operations of torch: it waits for the stream, lets the processor compute in the stand-in's
own view of the memory, and gives the stream a copy of what the operation has written. So whoever
reads a tensor without waiting for the stream finds old bytes. Freed memory is poisoned in stream
order, and then used again.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree, backend_registration

NAME = "standin"

_EXTENSION = 12  # kDLExtDev: a device that somebody else has defined
_NON_BLOCKING = 1
_CAPSULE = b"dltensor"  # the capsule has a pointer to it
_POISON = 0xDBDBDBDB
_BLOCK_BYTES_MIN = 512

# Operations on what a sparse tensor consists of: they are the same on all devices.
_SPARSE = torch._C.DispatchKeySet(torch._C.DispatchKey.SparseCPU)
_COPY_SPARSE = torch.ops.aten.copy_sparse_to_sparse_.default
_OF_PARTS = (
    "_sparse_coo_tensor_with_dims", "_sparse_coo_tensor_with_dims_and_tensors", "_indices",
    "_values", "indices", "values", "_nnz", "sparse_dim", "dense_dim", "is_coalesced",
    "_coalesced_",
)  # fmt: skip

_CODES = {  # of DLPack; an old torch does not have all types
    getattr(torch, name): code
    for name, code in {
        "bool": (6, 8),
        **{f"int{bits}": (0, bits) for bits in (8, 16, 32, 64)},
        **{f"uint{bits}": (1, bits) for bits in (8, 16, 32, 64)},
        **{f"float{bits}": (2, bits) for bits in (16, 32, 64)},
        "bfloat16": (4, 16),
        **{f"complex{bits}": (5, bits) for bits in (64, 128)},
    }.items()
    if hasattr(torch, name)
}


class _Tensor(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Tensor))
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


_made: list[StandIn] = []


def current() -> StandIn:
    """Return the stand-in of this process."""
    return _made[-1]


def library() -> Path | None:
    """Return the file of the stand-in, where the build of the tests in C++ has it."""
    build = Path(__file__).resolve().parents[4] / "build"
    file = build / "tests/cuda_standin/libbyteps_cuda_standin.so"
    return file if file.exists() else None


class _Blocks:
    """Memory that is used again, in sizes of powers of two."""

    def __init__(self, take: Callable[[int], int]) -> None:
        self._take = take
        self._free: dict[int, list[int]] = {}

    @staticmethod
    def size_of(size_bytes: int) -> int:
        return max(_BLOCK_BYTES_MIN, 1 << (size_bytes - 1).bit_length())

    def take(self, size_bytes: int) -> int:
        unused = self._free.get(self.size_of(size_bytes))
        return unused.pop() if unused else self._take(self.size_of(size_bytes))

    def give(self, address: int, size_bytes: int) -> None:
        self._free.setdefault(self.size_of(size_bytes), []).append(address)


class StandIn:
    """The driver as a program sees it, with the device `standin` of torch."""

    def __init__(self, file: str, device: int) -> None:
        self._driver = ctypes.CDLL(file)
        self._driver.stand_in_bytes.restype = ctypes.c_void_p
        self._driver.stand_in_bytes.argtypes = [ctypes.c_uint64]
        self._driver.stand_in_count.restype = Counts
        self.device = device
        self._context = ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self._call("cuCtxSetCurrent", self._context)
        self._stream = ctypes.c_void_p()
        self._call("cuStreamCreate", ctypes.byref(self._stream), _NON_BLOCKING)
        self._blocks = _Blocks(self._new_memory)
        self._pinned = _Blocks(self._new_pinned)
        self._in_copies: list[tuple[int, int]] = []
        self._lock = threading.RLock()  # torch frees tensors in the middle of anything
        self._alive: dict[int, tuple[object, ...]] = {}  # what a tensor's deleter needs
        self._deleter = _Deleter(self._on_delete)
        self.pinned_bytes = 0  # of this program
        self.operations = 0  # of torch, that the kernel has carried out
        backend_registration._setup_privateuseone_for_python_backend(NAME, _Module(self))
        self._kernels = torch.library.Library("_", "IMPL")
        self._kernels.fallback(self._kernel, "PrivateUse1")
        self._kernels.fallback(self._kernel, "SparsePrivateUse1")
        self._of_parts = torch.library.Library("aten", "IMPL")
        for name in _OF_PARTS:
            op = getattr(torch.ops.aten, name).default
            self._of_parts.impl(name, partial(op.redispatch, _SPARSE), "SparsePrivateUse1")
        _made.append(self)

    @property
    def stream(self) -> int:
        """The stream of this program."""
        return self._stream.value or 0

    def late(self, seed: int, microseconds_max: int) -> None:
        """Let streams wait before each item."""
        self._driver.stand_in_delay(ctypes.c_uint64(seed), ctypes.c_uint64(microseconds_max))

    def counts(self) -> Counts:
        """Return what the driver has handed out, to this program and to byteps."""
        counts: Counts = self._driver.stand_in_count()
        return counts

    def synchronize(self) -> None:
        """Wait for the stream of this program."""
        with self._lock:
            self._call("cuCtxSetCurrent", self._context)  # any thread may call
            self._call("cuStreamSynchronize", self._stream)
            copied, self._in_copies = self._in_copies, []
            for address, size_bytes in copied:
                self._pinned.give(address, size_bytes)

    # Memory.

    def _new_memory(self, size_bytes: int) -> int:
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size_bytes))
        return address.value

    def _new_pinned(self, size_bytes: int) -> int:
        memory = ctypes.c_void_p()
        self._call("cuMemHostAlloc", ctypes.byref(memory), ctypes.c_size_t(size_bytes), 0)
        self.pinned_bytes += size_bytes
        return memory.value or 0

    def _tensor(
        self, address: int, like: torch.Tensor, owner: object, size_bytes: int = 0
    ) -> torch.Tensor:
        """Return a tensor of device memory with the shape, strides and type of another one.

        With `size_bytes` the memory is the tensor's own, and is free when the tensor is."""
        shape = (ctypes.c_int64 * like.dim())(*like.shape)
        strides = (ctypes.c_int64 * like.dim())(*like.stride())
        code, bits = _CODES[like.dtype]
        made = _Tensor(
            address, _EXTENSION, self.device, like.dim(), code, bits, 1, shape, strides, 0, None,
            self._deleter,
        )  # fmt: skip
        self._alive[ctypes.addressof(made)] = (made, shape, strides, owner, address, size_bytes)
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.restype = ctypes.py_object
        new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return torch.from_dlpack(new_capsule(ctypes.addressof(made), _CAPSULE, None))

    def _on_delete(self, tensor: Any) -> None:
        *_, address, size_bytes = self._alive.pop(ctypes.addressof(tensor.contents))
        if not size_bytes:
            return
        with self._lock:
            self._call("cuCtxSetCurrent", self._context)
            self._fill(address, _POISON, _Blocks.size_of(size_bytes) // 4)
            self._blocks.give(address, size_bytes)

    def _fill(self, address: int, bits: int, words: int) -> None:
        place, count = ctypes.c_uint64(address), ctypes.c_size_t(words)
        self._call("cuMemsetD32Async", place, ctypes.c_uint32(bits), count, self._stream)

    def _write(self, address: int, source: int, size_bytes: int) -> None:
        """Give the stream a copy of host memory, which may change then."""
        if not size_bytes:
            return
        pinned = self._pinned.take(size_bytes)
        ctypes.memmove(pinned, source, size_bytes)
        self._in_copies.append((pinned, size_bytes))
        places = (ctypes.c_uint64(address), ctypes.c_uint64(pinned))
        self._call("cuMemcpyAsync", *places, ctypes.c_size_t(size_bytes), self._stream)

    # The kernel.

    def _own_view(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the same elements in the stand-in's own view of the memory."""
        if not tensor.numel():
            return torch.empty_strided(
                tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu"
            )
        size = _span(tensor)
        place = self._driver.stand_in_bytes(tensor.data_ptr())
        assert place, "the tensor's memory is none of the device"
        memory = (ctypes.c_uint8 * size).from_address(place)
        flat = torch.frombuffer(memory, dtype=torch.uint8).view(tensor.dtype)
        view = flat.as_strided(tensor.shape, tensor.stride())
        view = view.conj() if tensor.is_conj() else view
        return view._neg_view() if tensor.is_neg() else view

    def _to_device(self, value: torch.Tensor) -> torch.Tensor:
        """Return a new tensor of the device with these values, which the stream writes."""
        if value.is_conj() or value.is_neg():
            value = value.resolve_conj().resolve_neg()
        size = _span(value)
        address = self._blocks.take(size)
        self._write(address, value.data_ptr(), size)
        return self._tensor(address, value, None, max(size, 1))

    @torch._disable_dynamo
    def _kernel(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            self.operations += 1
            self.synchronize()
            if op is torch.ops.aten._copy_from.default:
                return self._copy_from(*args)
            return _Work(self, op, args, kwargs).run()

    def _copy_from(
        self, source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False
    ) -> torch.Tensor:
        values = self._own_view(source) if source.device.type == NAME else source
        if target.device.type != NAME:
            target.copy_(values)
            return target
        copy = _copied(self._own_view(target))
        copy.copy_(values)
        self._write(target.data_ptr(), copy.data_ptr(), _span(copy))
        return target

    def _call(self, function: str, *arguments: object) -> None:
        code = getattr(self._driver, function)(*arguments)
        if code != 0:
            raise RuntimeError(f"{function}: {code}")


class _Event:
    """A point in the one stream that there is: whoever comes behind it has waited for it."""

    def __init__(self, **_: object) -> None:
        pass

    def record(self, _: object = None) -> _Event:
        return self


class _Stream:
    """The stream, under whatever name it was asked for."""

    def __init__(self, stand_in: StandIn) -> None:
        self.synchronize = stand_in.synchronize

    def wait_stream(self, _: object) -> None:
        pass

    def wait_event(self, _: object) -> None:
        pass

    def record_event(self, event: _Event | None = None) -> _Event:
        return event or _Event()


class _Module(backend_registration._DummyBackendModule):
    """The module `torch.standin`, which FSDP2 asks for streams."""

    Event = _Event

    def __init__(self, stand_in: StandIn) -> None:
        self._stream = _Stream(stand_in)
        self.synchronize = stand_in.synchronize

    def Stream(self, **_: object) -> _Stream:  # noqa: N802
        return self._stream

    def current_stream(self, _: object = None) -> _Stream:
        return self._stream

    def stream(self, _: object) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def set_device(self, _: object) -> None:
        pass


class _Work:
    """One operation of torch, carried out in host memory."""

    def __init__(self, stand_in: StandIn, op: Any, args: Any, kwargs: Any) -> None:
        self._stand_in = stand_in
        self._op = op
        self._args = args
        self._kwargs = kwargs
        self._written: list[tuple[torch.Tensor, torch.Tensor]] = []  # of the device, its copy
        self._read: list[tuple[torch.Tensor, torch.Tensor]] = []  # of the device, its own view

    def run(self) -> Any:
        arguments = self._op._schema.arguments
        args = [self._host(value, arguments[i].alias_info) for i, value in enumerate(self._args)]
        infos = {argument.name: argument.alias_info for argument in arguments}
        kwargs = {name: self._host(value, infos[name]) for name, value in self._kwargs.items()}
        result = self._op(*args, **kwargs)
        for target, copy in self._written:
            if copy.layout == torch.sparse_coo:
                _COPY_SPARSE.redispatch(_SPARSE, target, self._sparse_device(copy))
            elif target.shape != copy.shape:  # an output that had no elements before
                target.data = self._stand_in._to_device(copy)
            else:
                self._stand_in._write(target.data_ptr(), copy.data_ptr(), _span(copy))
        return _pytree.tree_map_only(torch.Tensor, self._device, result)

    def _host(self, value: Any, alias: Any) -> Any:
        is_written = alias is not None and alias.is_write

        def host(one: Any) -> Any:
            if isinstance(one, torch.device) and one.type == NAME:
                return torch.device("cpu")
            if not isinstance(one, torch.Tensor) or one.device.type != NAME:
                return one
            for known, copy in self._written:
                if known is one:
                    return copy
            if one.layout == torch.sparse_coo:
                return self._sparse_host(one, is_written)
            view = self._stand_in._own_view(one)
            if is_written:
                view = _copied(view)
                self._written.append((one, view))
            else:
                self._read.append((one, view))
            return view

        return _pytree.tree_map(host, value)

    def _sparse_device(self, result: torch.Tensor) -> torch.Tensor:
        parts = (self._device(part) for part in (result._indices(), result._values()))
        return torch.sparse_coo_tensor(
            *parts, result.shape, is_coalesced=result.is_coalesced(), check_invariants=False
        )

    def _sparse_host(self, one: torch.Tensor, is_written: bool) -> torch.Tensor:
        parts = [self._stand_in._own_view(part) for part in (one._indices(), one._values())]
        if is_written:
            parts = [_copied(part) if part.numel() else part for part in parts]
        made = torch.sparse_coo_tensor(
            *parts, one.shape, is_coalesced=one.is_coalesced(), check_invariants=False
        )
        if is_written:
            self._written.append((one, made))
        return made

    def _device(self, result: torch.Tensor) -> torch.Tensor:
        for target, copy in self._written:
            if result is copy:
                return target
        if result.layout == torch.sparse_coo:
            return self._sparse_device(result)
        if result.numel():
            for source, view in self._read:
                offset = result.data_ptr() - view.data_ptr()
                same = result.untyped_storage().data_ptr() == view.untyped_storage().data_ptr()
                if same:
                    made = self._stand_in._tensor(source.data_ptr() + offset, result, source)
                    return made.conj() if result.is_conj() != source.is_conj() else made
        return self._stand_in._to_device(result)


# What torch does with storages of such a device only if it was defined in C++.
_deepcopy, _resize = torch.Tensor.__deepcopy__, torch.UntypedStorage.resize_


def _copy_tensor(tensor: torch.Tensor, memo: dict[int, object]) -> Any:
    """Return a copy that is no part of a graph, as of a buffer."""
    if tensor.device.type != NAME:
        return _deepcopy(tensor, memo)
    if id(tensor) not in memo:
        memo[id(tensor)] = tensor.detach().clone().requires_grad_(tensor.requires_grad)
    return memo[id(tensor)]


def _resize_storage(storage: torch.UntypedStorage, size_bytes: int) -> torch.UntypedStorage:
    """Spoil the bytes of a storage that shall have none. It keeps its memory for the next time."""
    if storage.device.type != NAME:
        return _resize(storage, size_bytes)
    assert size_bytes in (0, storage.nbytes())
    if not size_bytes:
        current()._fill(storage.data_ptr(), _POISON, storage.nbytes() // 4)
    return storage


torch.Tensor.__deepcopy__ = _copy_tensor  # type: ignore[method-assign]
torch.UntypedStorage.resize_ = _resize_storage  # type: ignore[method-assign]


def _span(tensor: torch.Tensor) -> int:
    """Return the bytes from the tensor's first element to its last one."""
    if not tensor.numel():
        return 0
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((length - 1) * stride for length, stride in steps)
    return (last + 1) * tensor.element_size()


def _copied(view: torch.Tensor) -> torch.Tensor:
    """Return a copy of the memory from the first element to the last one, in the same layout."""
    count = _span(view) // view.element_size()
    flat = view.as_strided((count,), (1,), view.storage_offset()).clone()
    return flat.as_strided(view.shape, view.stride())
