"""Operations that somebody will wait for, under the handles that users have of them."""

from __future__ import annotations

import contextlib
import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from byteps.common.errors import BytepsError

if TYPE_CHECKING:
    from byteps.common.session.flight import Flight, Receipt

Result = TypeVar("Result", covariant=True)


class _Claim:
    """What a handle has as long as somebody has the handle."""

    __slots__ = ("__weakref__",)


class Handle(int, Generic[Result]):
    """The number of an operation; also knows, once it is over, whose contributions it holds.

    Keep it, or `int(handle)`, until `synchronize`. If nobody has it any more, the operation goes on
    without a result.
    """

    def __new__(
        cls, number: int, table: PendingTable, receipt: Receipt, name: str, claim: object = None
    ) -> Handle[Result]:
        """Make the handle of an operation in `table`."""
        handle = super().__new__(cls, number)
        handle._table = table
        handle._receipt = receipt
        handle.name = name
        handle._claim = claim
        return handle

    _table: PendingTable
    _receipt: Receipt
    _claim: object
    name: str  # the user's, or the one that the call was given

    def __int__(self) -> int:
        """Return the number, for which the operation is kept until `synchronize`."""
        self._table.keep(self)
        return int.__int__(self)

    @property
    def members(self) -> list[int]:
        """The ranks whose contributions are in every part of the result; none when it failed.

        Where the ranks of a machine sum first, those that have joined are named with the others.
        Raises ValueError while the operation is on its way.
        """
        if self._receipt.ranks is not None:
            return list(self._receipt.ranks)
        return self._table.members_of(self)

    @property
    def any_layout(self) -> bool:
        """Whether every layout of these ranks over machines and servers gives the same bits, but
        for those of a NaN. False if the operation failed, and if that may be wrong.

        Raises ValueError while the operation is on its way.
        """
        if self._receipt.any_layout is not None:
            return self._receipt.any_layout
        return self._table.any_layout_of(self)


class PendingTable:
    """The handles of this process: positive, rising, never used again. Any thread.

    Whoever has a handle has a claim to its flight. So an exception that comes before a call has
    returned its handle leaves nothing behind.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # of `sweep`
        self._numbers = itertools.count(1)
        self._pending: dict[int, Flight] = {}
        self._claims: dict[int, weakref.ref[_Claim]] = {}
        # Claims that have gone away: `append` runs no step of Python.
        self._dropped: deque[weakref.ref[_Claim]] = deque()

    def add(self, flight: Flight) -> Handle[object]:
        """Return a new handle."""
        number = next(self._numbers)
        try:
            claim = _Claim()
            self._claims[number] = weakref.ref(claim, self._dropped.append)
            self._pending[number] = flight
            return Handle(number, self, flight.receipt, flight.name, claim)
        except BaseException:  # of a signal handler
            self.abandon(number)
            raise

    def then(self, handle: Handle[Any], change: Callable[[Any], Any]) -> Handle[Any]:
        """Let `change` make the result of what would have been the result. REQUIRES: nobody has
        the handle yet."""
        self._pending[handle].then(change)
        return handle

    def keep(self, handle: int) -> None:
        """Keep an operation also when its handle is gone: somebody has the number."""
        self._claims.pop(handle, None)

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

    def any_layout_of(self, handle: Handle[object]) -> bool:
        """Return Handle.any_layout of an operation that is over."""
        flight = self._pending.get(handle)
        if flight is None:
            raise ValueError(f"Handle {handle} was not created or has been cleared.")
        if not flight.is_complete():
            raise ValueError(f"The operation of handle {int(handle)} is still on its way.")
        return flight.any_layout()

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
                self._forget(handle)
                flight.forget_traceback()

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
        flight = self._forget(handle)
        if flight is not None:
            flight.abandon()

    def sweep(self) -> None:
        """Abandon the operations of which nobody has the handle."""
        if not self._dropped:
            return
        with self._lock:
            seen = len(self._dropped)
            for number, claim in list(self._claims.items()):
                if claim() is None:
                    self.abandon(number)
            with contextlib.suppress(IndexError):  # a signal handler has been here meanwhile
                for _ in range(seen):
                    self._dropped.popleft()

    def _forget(self, handle: int) -> Flight | None:
        self._claims.pop(handle, None)
        return self._pending.pop(handle, None)
