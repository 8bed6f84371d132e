"""The operations that this process has given to the library, and who wants them."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from byteps.common.request import NAME_PREFIX, Request

if TYPE_CHECKING:
    from byteps import _core


class _Nobody:
    """Owns what nobody wants."""


_NOBODY: weakref.ref[Any] = weakref.ref(_Nobody())  # dead at once


class OpenOperation:
    """One operation: what it is, the memory that it works on, and who wants it.

    The library writes into `ticket` that it has started the operation. It does so inside the call
    that starts it, where Python runs no signal handlers.
    """

    __slots__ = ("memory", "name", "owner", "request", "ticket")

    def __init__(
        self,
        request: Request,
        ticket: _core.Ticket,
        memory: object = None,
        owner: weakref.ref[Any] | None = None,
    ) -> None:
        """Keep `memory` until the operation is over. Without `owner` somebody must release it."""
        self.request = request
        self.name = NAME_PREFIX + request.name
        self.ticket = ticket
        self.memory = memory
        self.owner = owner

    @property
    def handle(self) -> int:
        """The library's number of it; 0 if it has not started."""
        return self.ticket.handle

    @property
    def is_ownerless(self) -> bool:
        """Whether nobody wants it any more."""
        return self.owner is not None and self.owner() is None

    @property
    def is_planned(self) -> bool:
        """Whether the library starts it when the first operation of its group has succeeded."""
        return self.ticket.is_held and self.ticket.handle == 0


class OpenOperations:
    """The operations of a session, from before their start until they are released. Any thread.

    Python may raise the exception of a signal handler between any two steps. So an operation is
    here before it starts, with its memory. The table knows its owner, the flight that waits for it,
    by a weak reference: if the owner goes away, nothing else need happen for the session to release
    the operation when it is over. Each step here may be interrupted, and done again.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._by_name: dict[str, OpenOperation] = {}
        self._ownerless: dict[str, OpenOperation] = {}
        # Owners that have gone away: `append` runs no step of Python.
        self._gone: deque[weakref.ref[Any]] = deque()

    def owner(self, who: object) -> weakref.ref[Any]:
        """Return what says whether an owner is still there."""
        return weakref.ref(who, self._gone.append)

    def add(self, operation: OpenOperation) -> OpenOperation:
        """Keep an operation, unless one of its name is open; return the one that is kept."""
        return self._by_name.setdefault(operation.name, operation)

    def get(self, name: str) -> OpenOperation | None:
        """Return the open operation of a name."""
        return self._by_name.get(name)

    def remove(self, operation: OpenOperation) -> None:
        """Forget an operation, and let go of its memory."""
        operation.owner = operation.memory = None
        with self._lock:
            if self._by_name.get(operation.name) is operation:
                del self._by_name[operation.name]
            if self._ownerless and self._ownerless.get(operation.name) is operation:
                del self._ownerless[operation.name]

    def abandon(self, operation: OpenOperation) -> None:
        """Take the owner from an operation, which it may have forgotten already."""
        with self._lock:
            if self._by_name.get(operation.name) is operation:
                self._ownerless[operation.name] = operation
                operation.owner = _NOBODY

    def ownerless(self) -> list[OpenOperation]:
        """Return the operations that nobody wants."""
        if self._gone:
            with self._lock:
                seen = len(self._gone)
                for operation in list(self._by_name.values()):
                    if operation.is_ownerless:
                        self._ownerless[operation.name] = operation
                with contextlib.suppress(IndexError):  # a signal handler has been here meanwhile
                    for _ in range(seen):
                        self._gone.popleft()
        return list(self._ownerless.values()) if self._ownerless else []

    def has_planned(self) -> bool:
        """Return whether the library will start an operation that it has already."""
        return any(operation.is_planned for operation in list(self._by_name.values()))
