"""A native module of pure Python, for tests of the Python side alone.

It poses as the rank 0 of a job whose other ranks contribute the same bytes. Operations complete
when they are waited for, so a test can look at what is still on its way.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byteps.common.errors import BytepsError, error_from_code
from byteps.common.operations.splits import rows_of
from byteps.common.types import DataType, Operation

NUMPY = {
    DataType.FLOAT32: np.float32,
    DataType.FLOAT64: np.float64,
    DataType.FLOAT16: np.float16,
    DataType.INT8: np.int8,
    DataType.INT16: np.int16,
    DataType.INT32: np.int32,
    DataType.INT64: np.int64,
    DataType.UINT8: np.uint8,
    DataType.BOOL: np.bool_,
}


@dataclass
class Started:
    name: str
    operation: Operation
    dtype: DataType
    shape: tuple[int, ...]
    input_pointer: int
    output_pointer: int
    root_rank: int
    priority: int
    combine: int = 0
    process_set: int = 0
    detail: str = ""
    splits: Sequence[int] | None = None
    atomic: bool = False
    limit_ms: int = 0
    device: int | None = None
    stream: int = 0
    complete: bool = False
    gathered: bytes = b""


class Ticket:
    def __init__(self) -> None:
        self.handle = 0
        self.is_held = False


class Followers:
    """Starts the others when somebody has waited for the first."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Ticket, tuple]] = []
        self.held: list[Ticket] = []
        self.error: Exception | None = None

    def add(self, ticket: Ticket, *arguments: object) -> None:
        self.waiting.append((ticket, arguments))

    def first_is_over(self, session: FakeSession, failed: bool) -> None:
        waiting, self.waiting = self.waiting, []
        for ticket, arguments in waiting:
            if not failed and self.error is None:
                try:
                    session.start(*arguments, ticket=ticket)
                except BytepsError as error:
                    self.error = error
        for ticket in self.held:
            ticket.is_held = False


class Opening:
    def __init__(self) -> None:
        self.broken_off = threading.Event()

    def break_off(self) -> None:
        self.broken_off.set()


class World:
    """Stands for the module; holds what the test wants to see."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.opened = 0
        self.declared: list[str] = []
        self.started: list[Started] = []
        self.failing: dict[str, int] = {}
        self.lost: set[int] = set()
        self.records = False  # for a timeline; what it would have:
        self.entries: list[tuple] = []
        self.sets: dict[int, list[int]] = {}
        self.gave_up: list[str] = []
        self.takes_objects = True
        self.operation_limit_ms = 1_800_000
        self.stuck: list[str | None] = []
        self.memory: dict[int, bytearray] = {}  # that nobody has given back, by address
        self.sums = (1, "sums of bfloat16 depend on machines")
        self.of_one_layout: set[str] = set()  # names of operations
        self.devices: list[str] = []
        self.nccl: dict[str, int] = {}  # versions, by file; that of the loader has no name

    def device_info(self, settings: Sequence[str], device: int) -> tuple[int, str, str]:
        if not self.devices:
            raise error_from_code(10, "there is no driver")
        return len(self.devices), self.devices[device], "13.0"

    def nccl_info(self, settings: Sequence[str]) -> tuple[int, str, str]:
        file = "".join(settings).removeprefix("nccl_library=")
        if file not in self.nccl:
            raise error_from_code(10, "there is no NCCL")
        return self.nccl[file], "2.28.9", file or "/lib/libnccl.so.2"

    def Session(self, settings: Sequence[str], opening: Opening) -> FakeSession:  # noqa: N802
        self.opened += 1
        return FakeSession(self)

    def Opening(self) -> Opening:  # noqa: N802
        return Opening()

    def Ticket(self) -> Ticket:  # noqa: N802
        return Ticket()

    def Followers(self) -> Followers:  # noqa: N802
        return Followers()

    def free_shared(self, session: int, data: int) -> None:
        assert session == FakeSession.address
        del self.memory[data]

    def names(self) -> list[str]:
        return [item.name for item in self.started]


class FakeSession:
    rank = 0
    local_rank = 0
    machine = 0
    address = 77

    def __init__(self, world: World) -> None:
        self._world = world
        self.size = self.local_size = world.size
        self.machine_sizes = [world.size]
        self._operations: dict[int, Started] = {}
        self._followers: dict[int, Followers] = {}
        self.takes_objects = world.takes_objects
        self.operation_limit_ms = world.operation_limit_ms
        self._down = False

    def declare(self, name: str) -> None:
        self._world.declared.append(name)

    def add_process_set(self, ranks: Sequence[int], number: int) -> None:
        self._world.sets[number] = list(ranks)

    def remove_process_set(self, number: int) -> None:
        del self._world.sets[number]

    def start(
        self,
        name: str,
        operation: int,
        dtype: int,
        shape: Sequence[int],
        *rest: int,
        ending: object = None,
        ticket: Ticket | None = None,
        followers: Followers | None = None,
        **more: object,
    ) -> int:
        if self._down:
            raise error_from_code(7, "shut down")
        if any(o.name == name and not o.complete for o in self._operations.values()):
            raise error_from_code(3, f"{name} is still on its way")
        item = Started(name, Operation(operation), DataType(dtype), tuple(shape), *rest, **more)
        self._world.started.append(item)
        handle = len(self._world.started)
        self._operations[handle] = item
        if ticket is not None:
            ticket.handle = handle
        if ticket is not None and followers is not None:
            self._followers[handle] = followers
            followers.held = [ticket, *(one for one, _ in followers.waiting)]
            for one in followers.held:
                one.is_held = True
        return handle

    def wait_for_followers(self, followers: Followers, timeout_ms: int) -> bool:
        if followers.error is not None:
            raise followers.error
        return not followers.waiting

    def poll(self, handle: int) -> int:
        return int(self._operations[handle].complete) if handle in self._operations else -1

    def wait(self, handle: int, timeout_ms: int) -> None:
        if handle not in self._operations:
            raise error_from_code(1, f"handle {handle} was released")
        item = self._operations[handle]
        item.complete = True
        if handle in self._followers:
            self._followers.pop(handle).first_is_over(self, item.name in self._world.failing)
        if item.name in self._world.failing:
            raise error_from_code(self._world.failing[item.name], f"{item.name} failed")
        size = int(np.prod(item.shape, dtype=np.int64)) * _width(item.dtype)
        data = ctypes.string_at(item.input_pointer, size) if size else b""
        if item.operation == Operation.ALLGATHER:
            item.gathered = data * self._world.size
        elif item.operation != Operation.BARRIER and size:
            if item.operation in (Operation.SUM, Operation.REDUCESCATTER):
                values = np.frombuffer(data, NUMPY[item.dtype])
                data = (values * self._world.size).astype(values.dtype).tobytes()
            if item.operation == Operation.REDUCESCATTER:
                data = data[: size // item.shape[0] * rows_of(0, self._world.size, item.shape[0])]
            ctypes.memmove(item.output_pointer, data, len(data))

    def set_stuck(self, name: str | None) -> None:
        self._world.stuck.append(name)

    def result(self, handle: int) -> tuple[int, int, int]:
        item = self._operations[handle]
        rows = item.shape[0] if item.shape else 0
        return len(item.gathered), rows * self._world.size, self._world.size

    def times(self, handle: int) -> tuple[int, int]:
        return 0, 0

    def set_timeline(self, on: bool) -> None:
        self._world.records = on

    def take_timeline(self) -> tuple[list[tuple], int]:
        taken, self._world.entries = self._world.entries, []
        return taken, 0

    def received_splits(self, handle: int) -> list[int]:
        item = self._operations[handle]
        return [item.shape[0]] * self._world.size if item.shape else []

    def handle_members(self, handle: int) -> list[int]:
        failed = self._operations[handle].name in self._world.failing
        return [] if failed else self.members()

    def members(self) -> list[int]:
        return [rank for rank in range(self._world.size) if rank not in self._world.lost]

    def sums(self) -> tuple[int, str]:
        return self._world.sums

    def is_of_any_layout(self, handle: int) -> bool:
        return self._operations[handle].name not in self._world.of_one_layout

    def copy_result(self, handle: int, pointer: int, size_bytes: int) -> None:
        ctypes.memmove(pointer, self._operations[handle].gathered, size_bytes)

    def release(self, handle: int) -> None:
        self._operations.pop(handle, None)

    def alloc_shared(self, size_bytes: int) -> tuple[int, bool]:
        memory = bytearray(max(size_bytes, 1))
        address = ctypes.addressof(ctypes.c_ubyte.from_buffer(memory))
        self._world.memory[address] = memory
        return address, True

    def speed(self) -> tuple[int, float, int]:
        return 0, 0.0, 0

    def give_up(self, why: str) -> None:
        self._world.gave_up.append(why)

    def shutdown(self) -> None:
        self._down = True


def _width(dtype: DataType) -> int:
    return 2 if dtype == DataType.BFLOAT16 else np.dtype(NUMPY[dtype]).itemsize
