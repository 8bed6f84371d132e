"""One membership in a job: the native session with tensors that stay alive until they are done."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from byteps.common.types import DataType, Operation

if TYPE_CHECKING:
    from byteps import _core

NAME_PREFIX = "byteps."


@dataclass(frozen=True)
class Request:
    """An operation in terms of addresses; the memory stays valid until it is complete."""

    name: str
    operation: Operation
    dtype: DataType
    shape: Sequence[int]
    input_pointer: int
    output_pointer: int
    root_rank: int = 0
    priority: int = 0


class Session:
    """The native session. Any thread may use it."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        """Join the job that the environment and `settings` describe; block until all have."""
        self._native = _open_interruptible([f"{k}={v}" for k, v in (settings or {}).items()])
        # Kept, because data loaders ask for them in forked processes and after shutdown.
        self.rank = self._native.rank
        self.size = self._native.size
        self.local_rank = self._native.local_rank
        self.local_size = self._native.local_size
        self.group = SubmissionGroup()
        self._unnamed: Counter[str] = Counter()
        self._lock = threading.Lock()

    def declare(self, name: str) -> None:
        """Give `name` its place in the order of urgency before its first use."""
        self._native.declare(NAME_PREFIX + name)

    def auto_name(self, kind: str) -> str:
        """Return a name for an unnamed operation: the same on all ranks, if all call alike."""
        with self._lock:
            self._unnamed[kind] += 1
            return f"{kind}.noname.{self._unnamed[kind]}"

    def start(self, request: Request) -> int:
        """Start an operation and return its handle, which must be released."""
        return self._native.start(
            NAME_PREFIX + request.name,
            int(request.operation),
            int(request.dtype),
            request.shape,
            request.input_pointer,
            request.output_pointer,
            request.root_rank,
            request.priority,
        )

    def is_complete(self, handle: int) -> bool:
        """Return whether the operation is over, with or without success."""
        return self._native.poll(handle) != 0

    def wait(self, handle: int, timeout_ms: int = -1) -> None:
        """Block until the operation is over; raise if it failed. Ctrl-C gets through."""
        self._native.wait(handle, timeout_ms)

    def result(self, handle: int) -> tuple[int, int, int]:
        """Return (bytes, first dimension, members) of a complete operation."""
        return self._native.result(handle)

    def handle_members(self, handle: int) -> list[int]:
        """Return the ranks that are in every part of a complete operation's result."""
        return self._native.handle_members(handle)

    def members(self) -> list[int]:
        """Return the ranks that take part in the job now."""
        return self._native.members()

    def copy_result(self, handle: int, pointer: int, size_bytes: int) -> None:
        """Copy the rows of a complete allgather."""
        self._native.copy_result(handle, pointer, size_bytes)

    def release(self, handle: int) -> None:
        """Forget a handle."""
        self._native.release(handle)

    def speed(self) -> tuple[int, float, int]:
        """Return (window in ms, MB/s, end of the window in ms since the epoch)."""
        return self._native.speed()

    def shutdown(self) -> None:
        """Leave the job; open operations end with ShutdownError. Idempotent."""
        self._native.shutdown()


class SubmissionGroup:
    """Counts submissions, so that the last one of a step is known. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._size = 0
        self._count = 0

    def set_size(self, size: int) -> None:
        """Set after how many submissions the count starts again."""
        with self._lock:
            self._size, self._count = size, 0

    def count(self) -> int:
        """Count one submission and return its place in the group, from 1."""
        with self._lock:
            self._count += 1
            place = self._count
            if place == self._size:
                self._count = 0
            return place


@dataclass
class Receipt:
    """Whose contributions are in a result; None until somebody has waited for it."""

    ranks: list[int] | None = None


@dataclass
class Pending:
    """An operation that somebody will wait for. `finish` makes what `synchronize` returns."""

    session: Session
    native_handle: int
    finish: Callable[[], object]
    keep_alive: tuple[object, ...] = ()
    receipt: Receipt = field(default_factory=Receipt)


class Handle(int):
    """The number of an operation; also knows, once it is over, whose contributions it holds."""

    def __new__(cls, number: int, table: PendingTable, receipt: Receipt) -> Handle:
        """Make the handle of an operation in `table`."""
        handle = super().__new__(cls, number)
        handle._table = table
        handle._receipt = receipt
        return handle

    _table: PendingTable
    _receipt: Receipt

    @property
    def members(self) -> list[int]:
        """The ranks whose contributions are in every part of the result; none when it failed.

        Raises ValueError while the operation is on its way.
        """
        if self._receipt.ranks is not None:
            return list(self._receipt.ranks)
        return self._table.members_of(self)


class PendingTable:
    """The handles of this process: positive, rising, never used again. Any thread."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._pending: dict[int, Pending] = {}

    def add(self, pending: Pending) -> Handle:
        """Return a new handle for `pending`."""
        handle = Handle(next(self._numbers), self, pending.receipt)
        self._pending[handle] = pending
        return handle

    def poll(self, handle: int) -> bool:
        """Return whether `synchronize` would not block."""
        pending = self._pending.get(handle)
        if pending is None:
            raise ValueError(f"Handle {handle} was not created or has been cleared.")
        return pending.session.is_complete(pending.native_handle)

    def members_of(self, handle: int) -> list[int]:
        """Return the ranks in the result of an operation that is over; see Handle.members."""
        pending = self._pending.get(handle)
        if pending is not None:
            if not pending.session.is_complete(pending.native_handle):
                raise ValueError(f"The operation of handle {int(handle)} is still on its way.")
            return pending.session.handle_members(pending.native_handle)
        if isinstance(handle, Handle):
            return handle.members
        raise ValueError(f"Handle {handle} was not created or has been cleared.")

    def synchronize(self, handle: int) -> object:
        """Block until the operation is over, forget the handle, return the result.

        A handle that this process does not know has no result: None. An interrupted wait keeps
        the handle: the memory is still in use.
        """
        pending = self._pending.get(handle)
        if pending is None:
            return None
        try:
            pending.session.wait(pending.native_handle)
        except Exception:  # the operation is over, unlike with KeyboardInterrupt
            self._forget(handle)
            raise
        try:
            return pending.finish()
        finally:
            self._forget(handle)

    def _forget(self, handle: int) -> None:
        pending = self._pending.pop(handle, None)
        if pending is not None:
            pending.receipt.ranks = pending.session.handle_members(pending.native_handle)
            pending.session.release(pending.native_handle)


def _open_interruptible(settings: list[str]) -> _core.Session:
    """Open a native session on a helper thread, so that Ctrl-C ends the wait for the others."""
    from byteps import _core

    result: list[_core.Session] = []
    errors: list[BaseException] = []

    def open_session() -> None:
        try:
            result.append(_core.Session(settings))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=open_session, name="byteps-open", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return result[0]
