"""Operations on their way that make one result, and what makes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from byteps.common.errors import (
    BytepsError,
    DeadlineError,
    InvalidArgumentError,
    without_traceback,
)
from byteps.common.request import Request
from byteps.common.session.open_operations import OpenOperation
from byteps.common.session.session import Session

if TYPE_CHECKING:
    from byteps import _core

# How long a wait of a watched flight stays in the native library before it looks around.
LOOK_AROUND_S = 0.5


@dataclass(slots=True)
class Receipt:
    """Whose contributions are in a result, and whether every layout of their ranks gives its bits;
    None until the flight is over."""

    ranks: list[int] | None = None
    any_layout: bool | None = None


class Watch(Protocol):
    """Looks at a flight that takes long."""

    def look_around(self) -> None:
        """Raise if the flight can never be complete. Called twice a second; blocks shortly."""

    def explain(self, error: Exception) -> Exception:
        """Return what is raised for an error of the operations or of what finishes them."""

    def late(self) -> Exception:
        """Return the error for a flight that has passed its limit."""


class Flight:
    """Some operations that are started together and make one result. Any thread may wait for it.

    The first thread that finds the operations complete runs `finish`, which gets the flight; its
    result, or the first error, is kept for everyone who waits. A signal handler that interrupts
    `finish` cannot have the result. Without a watch a wait lasts until the operations are over;
    with one, it looks around twice a second.

    The session has the operations and their memory from before their start. A flight that nobody
    has any more, or that an exception has interrupted, abandons them: they go on, and the session
    lets go of them when they are over.
    """

    __slots__ = (
        "__weakref__", "_finish", "_is_settling", "_limit_s", "_lock", "_watch",
        "error", "is_settled", "name", "operations", "receipt", "result", "session",
    )  # fmt: skip

    def __init__(
        self,
        session: Session,
        requests: Sequence[Request],
        finish: Callable[[Flight], object] | None = None,
        keep_alive: object = None,
        watch: Watch | None = None,
        limit_s: float | None = None,
    ) -> None:
        """Start the operations; `keep_alive` has their memory. No wait of a watched flight is
        longer than `limit_s`."""
        self.session = session
        self.name = requests[0].name if requests else ""  # the user's, or the one it was given
        self.receipt = Receipt()
        self.result: object = None
        self.error: Exception | None = None
        self._finish = finish
        self._watch = watch
        self._limit_s = limit_s
        self._lock = threading.RLock()  # a signal handler may wait, too
        self._is_settling = False
        self.is_settled = False  # there is a result or an error
        self.operations: list[OpenOperation] = []
        try:
            self.operations = [session.operation(one, keep_alive, self) for one in requests]
            self._begin()
        except BaseException:  # also one of a signal handler
            session.abandon(self.operations)
            if not any(operation.handle for operation in self.operations):
                session.unnamed.take_back(self.name)
            raise

    def _begin(self) -> None:
        for operation in self.operations:
            self.session.begin(operation)

    def then(self, change: Callable[[Any], object]) -> None:
        """Let `change` make the result of what `finish` makes. REQUIRES: nobody waits yet."""
        finish = self._finish
        self._finish = lambda flight: change(None if finish is None else finish(flight))

    def is_complete(self) -> bool:
        """Return whether `wait` would not block."""
        return self.is_settled or all(self.session.is_complete(one) for one in self.operations)

    def is_over(self) -> bool:
        """Do what `is_complete` does, and make the result of what is complete.

        The names of a flight that is over are free.
        """
        with self._lock:  # who settles the flight has it until the names are free
            if not self.is_settled:
                if self._is_settling or not self.is_complete():
                    return False
                self._settle(self._first_error())
        self._tell()
        return True

    def wait(self, timeout_s: float | None = None) -> object:
        """Block until the result is there and return it, or raise why there is none.

        After `timeout_s` it is a DeadlineError and the flight goes on; with its own limit it ends.
        Ctrl-C gets through, and leaves the flight on its way.
        """
        if not self.is_settled:
            if self._watch is None and timeout_s is None:
                error = self._wait_for_all()
            else:
                error = self._wait_watchfully(timeout_s)
            with self._lock:
                if not self.is_settled:
                    self._settle(error)
        with self._lock:
            error, result = self.error, self.result
        self._tell()  # also whom only this thread knows of
        try:
            if error is not None:
                raise error
            return result
        finally:
            del error  # its traceback has this frame: a circle would keep the session

    def _waits(self, timeout_ms: int) -> Iterator[Callable[[], object]]:
        """Return what to call, in turn, to wait for the operations; each raises their errors."""
        for operation in self.operations:
            yield partial(self.session.wait, operation, timeout_ms)

    def _wait_for_all(self) -> Exception | None:
        """Wait for the operations; return the first error of one."""
        first: Exception | None = None
        for wait in self._waits(-1):
            try:
                wait()
            except BytepsError as error:
                if self.is_settled:  # another thread has made the result
                    return None
                first = first or error
        try:
            return first
        finally:
            del first  # its traceback has this frame, too

    def _wait_watchfully(self, timeout_s: float | None) -> Exception | None:
        """Do the same, and look around; but not longer than the limit."""
        limit_s = self._limit_s if timeout_s is None else timeout_s
        deadline = None if limit_s is None else time.monotonic() + limit_s
        for operation in self.operations:
            if not self._wait_for(operation, deadline):
                if timeout_s is None and self._watch is not None:
                    raise self._watch.late()
                raise DeadlineError(f"The operation was not complete after {limit_s:g} s.")
        return self._first_error()

    def _wait_for(self, operation: OpenOperation, deadline: float | None) -> bool:
        """Wait for one operation; return whether it is over, whichever way it ended."""
        while not self.is_settled:
            left_s = LOOK_AROUND_S
            if deadline is not None:
                left_s = min(left_s, max(0.0, deadline - time.monotonic()))
            try:
                self.session.wait(operation, int(left_s * 1000) + 1)
                return True
            except Exception as error:
                if self.is_settled or self.session.is_complete(operation):
                    return True
                if not isinstance(error, DeadlineError):
                    raise
            watch = self._watch
            if watch is not None:
                watch.look_around()
            if deadline is not None and time.monotonic() >= deadline:
                return False
        return True

    def _first_error(self) -> Exception | None:
        """Return how the operations, which are complete, have failed."""
        for wait in self._waits(0):
            try:
                wait()
            except BytepsError as error:
                return error
        return None

    def _settle(self, error: Exception | None) -> None:
        """Make the result. REQUIRES: the lock, and that all operations are complete."""
        if self._is_settling:
            raise InvalidArgumentError(
                f"a signal handler waits for '{self.name}', and has interrupted the code that "
                "makes the result. Wait for it after the handler."
            )
        try:
            self._is_settling = True
            if self.is_settled:  # a signal handler has made it meanwhile
                return
            if error is None and self._finish is not None:
                try:
                    self.result = self._finish(self)
                except Exception as raised:
                    error = raised
            if error is not None:
                self.error = error if self._watch is None else self._watch.explain(error)
            self.receipt.any_layout = self._is_of_any_layout()
            self.receipt.ranks = self._members()
            self._let_go()
        finally:
            self._is_settling = False

    def _let_go(self) -> None:
        self._finish = self._watch = None
        self.is_settled = True
        for operation in self.operations:
            self.session.release(operation)
        self.session.sweep()

    def give_up(self, error: Exception) -> None:
        """End the flight with an error; its operations go on, with the memory that they need."""
        with self._lock:
            if self.is_settled or self._is_settling:
                return
            self.error = error
            self._finish = None
            self.is_settled = True
        self.session.abandon(self.operations)
        self._tell()

    def forget_traceback(self) -> None:
        """Keep no traceback of the error: it has the flight, and nothing shall be kept alive so."""
        with self._lock:
            if self.error is not None:
                self.error = without_traceback(self.error)

    def abandon(self) -> None:
        """Want no result; the operations go on, with the memory that they need."""
        self.session.abandon(self.operations)

    def _tell(self) -> None:
        """Say that the flight is over, to whom a subclass has. Any thread, more than once."""

    def members(self) -> list[int]:
        """Return the ranks in every part of the result, which is complete; none if it failed."""
        return self._members() if self.receipt.ranks is None else list(self.receipt.ranks)

    def _members(self) -> list[int]:
        parts = [self.session.members_of(operation) for operation in self.operations] or [[]]
        return [rank for rank in parts[0] if all(rank in others for others in parts[1:])]

    def any_layout(self) -> bool:
        """Return whether every layout gives the bits of the result, which is complete."""
        found = self.receipt.any_layout
        return self._is_of_any_layout() if found is None else found

    def _is_of_any_layout(self) -> bool:
        try:
            return self.error is None and all(
                self.session.is_of_any_layout(operation) for operation in self.operations
            )
        except BytepsError:  # one has failed, and has no result
            return False

    # For `finish`.

    def members_of(self, place: int) -> list[int]:
        """Return the ranks in the result of one of the operations."""
        return self.session.members_of(self.operations[place])

    # The same, of a flight with a single operation.

    def number(self) -> int:
        """Return what a complete call without a tensor has brought: of a join, the last rank."""
        return self.session.result(self.operations[0])[1]

    def rows(self) -> tuple[int, int]:
        """Return how many bytes, and rows, a complete allgather or alltoall has brought."""
        size_bytes, rows, _ = self.session.result(self.operations[0])
        return size_bytes, rows

    def rows_of_ranks(self) -> list[int]:
        """Return how many of these rows have come from each rank; none of one that was lost."""
        return self.session.received_splits(self.operations[0])

    def copy_rows(self, pointer: int, size_bytes: int) -> None:
        """Copy the rows to where there is room for them."""
        self.session.copy_result(self.operations[0], pointer, size_bytes)


class Chain(Flight):
    """A flight of which the later operations start when the first has succeeded.

    The first tells whether all ranks mean the same group. The library starts the others on a thread
    of its own, so that they need no help from a rank that waits for something else.
    """

    __slots__ = ("_followers",)

    _followers: _core.Followers

    def _begin(self) -> None:
        self._followers = self.session.begin_group(self.operations)

    def is_complete(self) -> bool:
        """Return whether `wait` would not block."""
        if self.is_settled:
            return True
        return (
            self.session.is_complete(self.operations[0])
            and self._have_all_started(0)
            and all(self.session.is_complete(one) for one in self.operations if one.handle)
        )

    def _have_all_started(self, timeout_ms: int) -> bool:
        """Wait until all have started, or until it is known that some will not."""
        try:
            return self.session.wait_for_followers(self._followers, timeout_ms)
        except BytepsError:
            return True

    def _waits(self, timeout_ms: int) -> Iterator[Callable[[], object]]:
        yield partial(self.session.wait, self.operations[0], timeout_ms)
        yield partial(self.session.wait_for_followers, self._followers, timeout_ms)
        for operation in self.operations[1:]:
            if operation.handle:
                yield partial(self.session.wait, operation, timeout_ms)

    def _wait_for(self, operation: OpenOperation, deadline: float | None) -> bool:
        if operation is not self.operations[0]:
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._have_all_started(-1 if left_s is None else int(left_s * 1000) + 1):
                return False
            if not operation.handle:
                return True
        return super()._wait_for(operation, deadline)

    def _members(self) -> list[int]:
        return [] if self.error is not None else super()._members()
