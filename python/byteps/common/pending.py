"""Operations that somebody will wait for, under the handles that users have of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from byteps.common.errors import BytepsError

if TYPE_CHECKING:
    from byteps.common.session import Session


@dataclass(slots=True)
class Receipt:
    """Whose contributions are in a result; None until somebody has waited for it."""

    ranks: list[int] | None = None


class Waitable(Protocol):
    """What a handle stands for."""

    receipt: Receipt

    @property
    def finish(self) -> Callable[[], object]:
        """What makes the result. REQUIRES of a call: it is over, with success."""

    def is_complete(self) -> bool:
        """Return whether `wait` would not block."""

    def wait(self) -> None:
        """Block until it is over; raise if it failed."""

    def members(self) -> list[int]:
        """Return the ranks in every part of the result. REQUIRES: it is over."""

    def release(self) -> None:
        """Let go of everything."""


@dataclass(slots=True)
class Pending:
    """One operation. `finish` makes what `synchronize` returns."""

    session: Session
    native_handle: int
    finish: Callable[[], object]
    keep_alive: tuple[object, ...] = ()
    receipt: Receipt = field(default_factory=Receipt)

    def is_complete(self) -> bool:
        """Return whether `wait` would not block."""
        return self.session.is_complete(self.native_handle)

    def wait(self) -> None:
        """Block until it is over; raise if it failed."""
        self.session.wait(self.native_handle)

    def members(self) -> list[int]:
        """Return the ranks in every part of the result. REQUIRES: it is over."""
        return self.session.handle_members(self.native_handle)

    def release(self) -> None:
        """Let go of everything."""
        self.session.release(self.native_handle)


@dataclass(slots=True)
class PendingGroup:
    """Operations that are one to the user: all succeed, or the whole fails."""

    parts: Sequence[Pending]
    finish: Callable[[], object]
    receipt: Receipt = field(default_factory=Receipt)

    def is_complete(self) -> bool:
        """Return whether `wait` would not block."""
        return all(part.is_complete() for part in self.parts)

    def wait(self) -> None:
        """Block until all are over; raise the first error."""
        errors: list[BytepsError] = []
        for part in self.parts:
            try:
                part.wait()
            except BytepsError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def members(self) -> list[int]:
        """Return the ranks in every part of the result. REQUIRES: all are over."""
        ranks = [part.members() for part in self.parts]
        return [rank for rank in ranks[0] if all(rank in others for others in ranks[1:])]

    def release(self) -> None:
        """Let go of everything."""
        for part in self.parts:
            part.release()


class Handle(int):
    """The number of an operation; also knows, once it is over, whose contributions it holds."""

    def __new__(cls, number: int, table: PendingTable, receipt: Receipt, name: str) -> Handle:
        """Make the handle of an operation in `table`."""
        handle = super().__new__(cls, number)
        handle._table = table
        handle._receipt = receipt
        handle.name = name
        return handle

    _table: PendingTable
    _receipt: Receipt
    name: str  # the user's, or the one that the call was given

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
        self._pending: dict[int, Waitable] = {}
        self._abandoned: dict[int, Waitable] = {}

    def add(self, pending: Waitable, name: str = "") -> Handle:
        """Return a new handle for `pending`."""
        handle = Handle(next(self._numbers), self, pending.receipt, name)
        self._pending[handle] = pending
        return handle

    def poll(self, handle: int) -> bool:
        """Return whether `synchronize` would not block."""
        pending = self._pending.get(handle)
        if pending is None:
            raise ValueError(f"Handle {handle} was not created or has been cleared.")
        return pending.is_complete()

    def members_of(self, handle: int) -> list[int]:
        """Return the ranks in the result of an operation that is over; see Handle.members."""
        pending = self._pending.get(handle)
        if pending is not None:
            if not pending.is_complete():
                raise ValueError(f"The operation of handle {int(handle)} is still on its way.")
            return pending.members()
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
            pending.wait()
        except Exception:  # the operation is over, unlike with KeyboardInterrupt
            self._forget(handle)
            raise
        try:
            return pending.finish()
        finally:
            self._forget(handle)

    def abandon(self, handle: int) -> None:
        """Forget an operation that other ranks may never begin; its name is free when it is over.

        Its memory is kept until then.
        """
        pending = self._pending.pop(handle, None)
        if pending is not None:
            self._abandoned[handle] = pending

    def sweep(self) -> None:
        """Let go of the abandoned operations that are over."""
        for handle, pending in list(self._abandoned.items()) if self._abandoned else ():
            if pending.is_complete() and self._abandoned.pop(handle, None) is not None:
                pending.release()

    def _forget(self, handle: int) -> None:
        pending = self._pending.pop(handle, None)
        if pending is not None:
            pending.receipt.ranks = pending.members()
            pending.release()
