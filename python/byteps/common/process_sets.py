"""Process sets: groups of ranks that exchange tensors among themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from byteps.common.errors import InvalidArgumentError, NotInitializedError
from byteps.common.request import Request
from byteps.common.session import Session
from byteps.common.types import DataType, Operation


class ProcessSet:
    """Some ranks of the job. Give it to `init(process_sets=[...])` or to `add_process_set`.

    Example::

        even = bps.ProcessSet([0, 2])
        bps.init(process_sets=[even])
        if even.included():
            bps.allreduce(tensor, name="loss", process_set=even)

    The order of the ranks has no meaning; a rank's number within the set is its place among them in
    rising order. `process_set_id` is None until the set is registered, and after `shutdown`.
    """

    def __init__(self, ranks_or_comm: Iterable[int] | Any) -> None:
        """Name the ranks; an MPI communicator is refused, since there is no MPI here."""
        if not isinstance(ranks_or_comm, Iterable):
            raise InvalidArgumentError(
                "a process set is made of a list of ranks; communicators of MPI have no meaning "
                "here."
            )
        given = [int(rank) for rank in ranks_or_comm]
        if len(set(given)) != len(given):
            raise ValueError(f"a rank is twice in the process set {given}.")
        self.process_set_id: int | None = None
        self._ranks = sorted(given)
        self._session: Session | None = None

    @property
    def ranks(self) -> list[int]:
        """The ranks of the set, the lowest first."""
        return list(self._ranks)

    def size(self) -> int:
        """Return the number of ranks in the set."""
        self._registered()
        return len(self.ranks)

    def rank(self) -> int:
        """Return this process' number within the set; ValueError when it is not in the set."""
        own = self._registered().rank
        if own not in self.ranks:
            raise ValueError(f"rank {own} is not in the {self}.")
        return self.ranks.index(own)

    def included(self) -> bool:
        """Return whether this process is in the set."""
        return self._registered().rank in self.ranks

    def _registered(self) -> Session:
        if self.process_set_id is None or self._session is None:
            raise ValueError(
                f"the {self} is not registered: pass it to init(process_sets=[...]) or to "
                "add_process_set, on all ranks."
            )
        return self._session

    def __str__(self) -> str:
        number = "" if self.process_set_id is None else f" {self.process_set_id}"
        return f"process set{number} of the ranks {self._ranks}"

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self._ranks})"


class _Everybody(ProcessSet):
    """All ranks of whatever job the process is in."""

    def __init__(self) -> None:
        super().__init__([])
        self.process_set_id = 0

    @property
    def ranks(self) -> list[int]:
        """All ranks, the lowest first."""
        return list(range(self._registered().size))

    def _registered(self) -> Session:
        from byteps.common import default

        return default.current()

    def __str__(self) -> str:
        return "process set 0 of all ranks"

    def __repr__(self) -> str:
        return "global_process_set"


global_process_set: ProcessSet = _Everybody()


class ProcessSets:
    """The sets of one session. Changes are made by all ranks, in the same order."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sets: dict[int, ProcessSet] = {}
        self._changes = 0
        self._next_number = 1

    def get(self, number: int) -> ProcessSet:
        """Return the set that a number stands for; 0 is that of all ranks."""
        found = self._sets.get(number) if number else global_process_set
        if found is None:
            raise InvalidArgumentError(f"process set {number} is not registered.")
        return found

    def of_ranks(self, ranks: Sequence[int]) -> ProcessSet:
        """Return the registered set that has these ranks."""
        for item in self._sets.values():
            if item.ranks == list(ranks):
                return item
        raise InvalidArgumentError(
            f"no process set of the ranks {list(ranks)} is registered: call add_process_set on all "
            "ranks."
        )

    def add(self, added: ProcessSet) -> None:
        """Register a set on all ranks: blocks until all have called it, with the same ranks."""
        ranks, size = added.ranks, self._session.size
        if added is global_process_set or added.process_set_id is not None:
            raise ValueError(f"the {added} is registered already.")
        if not ranks or ranks[0] < 0 or ranks[-1] >= size:
            raise InvalidArgumentError(f"the {added} needs ranks from 0 to {size - 1}.")
        for other in (global_process_set, *self._sets.values()):
            if other.ranks == ranks:
                raise ValueError(f"the {other} has the same ranks; use that one.")
        self._agree(f"add_process_set {ranks}")
        number, self._next_number = self._next_number, self._next_number + 1
        self._session.add_process_set(ranks, number)
        added.process_set_id = number
        added._session = self._session
        self._sets[number] = added

    def remove(self, removed: ProcessSet) -> bool:
        """Forget a set on all ranks; False for one that is not registered, or has all ranks."""
        number = removed.process_set_id
        if number is None or self._sets.get(number) is not removed:
            return False
        self._agree(f"remove_process_set {number} {removed.ranks}")
        self._session.remove_process_set(number)
        self._drop(removed)
        del self._sets[number]
        return True

    def clear(self) -> None:
        """Make the sets unregistered: the session is over."""
        for item in self._sets.values():
            self._drop(item)
        self._sets.clear()

    @staticmethod
    def _drop(item: ProcessSet) -> None:
        item.process_set_id = None
        item._session = None

    def _agree(self, detail: str) -> None:
        """Block until all ranks make the same change; raise MismatchError on all if they do not."""
        # Made here, not in call.py, which stands on the sets.
        name = f"process_set.change.{self._changes}"
        request = Request(name, Operation.BARRIER, DataType.UINT8, (), 0, 0, detail=detail)
        handle = self._session.start(request)
        try:
            self._session.wait(handle)
        finally:
            self._session.release(handle)
        self._changes += 1


def number_of(process_set: ProcessSet) -> int:
    """Return the set's number, for an operation of this rank; raise when it cannot take part."""
    if process_set is global_process_set:
        return 0
    if not process_set.included():
        raise InvalidArgumentError(
            f"this process is not in the {process_set}; only its ranks make calls with it."
        )
    if process_set.process_set_id is None:
        raise NotInitializedError
    return process_set.process_set_id


def has_others(process_set: ProcessSet) -> bool:
    """Return whether this process is in the set, and not alone."""
    return process_set.included() and process_set.size() > 1
