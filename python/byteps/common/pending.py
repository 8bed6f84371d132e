"""Operations that somebody will wait for, under the handles that users have of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from byteps.common.errors import BytepsError

if TYPE_CHECKING:
    from byteps.common.flight import Flight, Receipt

Result = TypeVar("Result", covariant=True)


class Handle(int, Generic[Result]):
    """The number of an operation; also knows, once it is over, whose contributions it holds."""

    def __new__(
        cls, number: int, table: PendingTable, receipt: Receipt, name: str
    ) -> Handle[Result]:
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

        Where the ranks of a machine sum first, those that have joined are named with the others.
        Raises ValueError while the operation is on its way.
        """
        if self._receipt.ranks is not None:
            return list(self._receipt.ranks)
        return self._table.members_of(self)


class PendingTable:
    """The handles of this process: positive, rising, never used again. Any thread."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._pending: dict[int, Flight] = {}
        self._abandoned: dict[int, Flight] = {}

    def add(self, flight: Flight) -> Handle[object]:
        """Return a new handle."""
        handle: Handle[object] = Handle(next(self._numbers), self, flight.receipt, flight.name)
        self._pending[handle] = flight
        return handle

    def poll(self, handle: int) -> bool:
        """Return whether `synchronize` would not block."""
        flight = self._pending.get(handle)
        if flight is None:
            raise ValueError(f"Handle {handle} was not created or has been cleared.")
        return flight.is_complete()

    def members_of(self, handle: int) -> list[int]:
        """Return the ranks in the result of an operation that is over; see Handle.members."""
        flight = self._pending.get(handle)
        if flight is not None:
            if not flight.is_complete():
                raise ValueError(f"The operation of handle {int(handle)} is still on its way.")
            return flight.members()
        if isinstance(handle, Handle):
            return handle.members
        raise ValueError(f"Handle {handle} was not created or has been cleared.")

    @overload
    def synchronize(self, handle: Handle[Result]) -> Result: ...

    @overload
    def synchronize(self, handle: int) -> object: ...

    def synchronize(self, handle: int) -> object:
        """Block until the operation is over, forget the handle, return the result.

        A handle that this process does not know has no result: None. An interrupted wait keeps
        the handle: the memory is still in use.
        """
        flight = self._pending.get(handle)
        if flight is None:
            return None
        try:
            return flight.wait()
        finally:
            if flight.is_settled:
                self._pending.pop(handle, None)
                flight.error = None  # whose traceback has the flight: nothing is kept alive so

    def synchronize_all(self, handles: Iterable[int]) -> list[Any]:
        """Do `synchronize` with each, also after a failure; return the results, or raise the first
        error."""
        results, errors = [], []
        for handle in handles:
            try:
                results.append(self.synchronize(handle))
            except BytepsError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return results

    def abandon(self, handle: int) -> None:
        """Forget an operation that other ranks may never begin; its name is free when it is over.

        Its memory is kept until then.
        """
        flight = self._pending.pop(handle, None)
        if flight is not None:
            self._abandoned[handle] = flight

    def sweep(self) -> None:
        """Let go of the abandoned operations that are over."""
        for handle, flight in list(self._abandoned.items()) if self._abandoned else ():
            if flight.is_complete() and self._abandoned.pop(handle, None) is not None:
                flight.release()
