"""Process sets: groups of ranks that exchange tensors among themselves."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from byteps.common.errors import InvalidArgumentError, NotInitializedError
from byteps.common.request import Request
from byteps.common.session.flight import Flight
from byteps.common.session.session import Session
from byteps.common.types import DataType, Operation


class ProcessSet:
    """Some ranks of the job. Give it to `init(process_sets=[...])` or to `add_process_set`.

    Example::

        even = bps.ProcessSet([0, 2])
        bps.init(process_sets=[even])
        if even.included():
            bps.allreduce(tensor, name="loss", process_set=even)

    The order of the ranks has no meaning; a rank's number within the set is its place among them in
    rising order. `process_set_id` is None until the set is registered, and after `shutdown`. A new
    set may get the id of one that was removed.
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
        self._number = 0  # as the session knows it, if there is an id
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
            raise ValueError(f"rank {own} is not in the {self.in_words()}.")
        return self.ranks.index(own)

    def included(self) -> bool:
        """Return whether this process is in the set."""
        return self._registered().rank in self.ranks

    def _registered(self) -> Session:
        if self.process_set_id is None or self._session is None:
            raise ValueError(
                f"the {self.in_words()} is not registered: pass it to init(process_sets=[...]) or "
                "to add_process_set, on all ranks."
            )
        return self._session

    def in_words(self) -> str:
        """Return what texts call the set."""
        number = "" if self.process_set_id is None else f" {self.process_set_id}"
        return f"process set{number} of the ranks {self._ranks}"

    def __str__(self) -> str:
        # As in Horovod, whose users compare it.
        return (
            f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm=None)"
        )

    def __repr__(self) -> str:
        return str(self)


class _Everybody(ProcessSet):
    """All ranks of whatever job the process is in: every session registers this set first."""

    def __init__(self) -> None:
        super().__init__([])
        self.process_set_id = 0

    @property
    def ranks(self) -> list[int]:
        """All ranks, the lowest first; none before `init`."""
        return [] if self._session is None else list(range(self._session.size))

    def _registered(self) -> Session:
        if self._session is None:
            raise NotInitializedError
        return self._session

    def in_words(self) -> str:
        """Return what texts call the set."""
        return "process set 0 of all ranks"

    def __repr__(self) -> str:
        return "global_process_set"  # what signatures show


global_process_set: ProcessSet = _Everybody()


@dataclass
class _Registered:
    """A set of a session. Several objects stand for it if `init` was called again."""

    number: int  # each one's own, also when the id is that of a set that was removed
    ranks: list[int]
    objects: list[ProcessSet] = field(default_factory=list)

    def take(self, item: ProcessSet, process_set_id: int, session: Session) -> None:
        item.process_set_id = process_set_id
        item._number = self.number
        item._session = session
        self.objects.append(item)

    def drop(self) -> None:
        for item in self.objects:
            item.process_set_id = item._session = None


class ProcessSets:
    """The sets of one session. Changes are made by all ranks, in the same order."""

    def __init__(self, session: Session) -> None:
        self._session = session
        global_process_set._session = session
        self._sets: dict[int, _Registered] = {}  # by id
        self._changes = 0
        self._next_number = 1

    def get(self, process_set_id: int) -> ProcessSet:
        """Return the set of an id; 0 is that of all ranks."""
        if process_set_id == 0:
            return global_process_set
        found = self._sets.get(process_set_id)
        if found is None:
            raise InvalidArgumentError(f"process set {process_set_id} is not registered.")
        return found.objects[0]

    def register(self, given: Sequence[ProcessSet | Sequence[int]]) -> None:
        """Register the sets of an `init`. One whose ranks are registered already gets their id."""
        items = [item if isinstance(item, ProcessSet) else ProcessSet(item) for item in given]
        for place, item in enumerate(items):
            if any(item.ranks == other.ranks for other in items[:place]):
                raise ValueError(f"the {item.in_words()} is given twice.")
        for item in items:
            if not self._is_known(item):
                self.add(item)

    def _is_known(self, item: ProcessSet) -> bool:
        """Return whether a set has these ranks; then this object stands for it, too."""
        for process_set_id, registered in self._sets.items():
            if registered.ranks == item.ranks:
                if item.process_set_id is None:
                    registered.take(item, process_set_id, self._session)
                return True
        return False

    def of_ranks(self, ranks: Sequence[int]) -> ProcessSet:
        """Return the registered set that has these ranks."""
        for registered in self._sets.values():
            if registered.ranks == list(ranks):
                return registered.objects[0]
        raise InvalidArgumentError(
            f"no process set of the ranks {list(ranks)} is registered: call add_process_set on all "
            "ranks."
        )

    def add(self, added: ProcessSet) -> None:
        """Register a set on all ranks: blocks until all have called it, with the same ranks."""
        ranks, size = added.ranks, self._session.size
        if added is global_process_set or added.process_set_id is not None:
            raise ValueError(f"the {added.in_words()} is registered already.")
        if not ranks or ranks[0] < 0 or ranks[-1] >= size:
            raise InvalidArgumentError(f"the {added.in_words()} needs ranks from 0 to {size - 1}.")
        for other in (global_process_set, *(known.objects[0] for known in self._sets.values())):
            if other.ranks == ranks:
                raise ValueError(f"the {other.in_words()} has the same ranks; use that one.")
        self._agree(f"add_process_set {ranks}")
        registered = _Registered(self._next_number, ranks)
        self._next_number += 1
        self._session.add_process_set(ranks, registered.number)
        free = next(number for number in itertools.count(1) if number not in self._sets)
        registered.take(added, free, self._session)
        self._sets[free] = registered

    def remove(self, removed: ProcessSet) -> bool:
        """Forget a set on all ranks; False for one that is not registered, or has all ranks."""
        process_set_id = removed.process_set_id or 0
        found = self._sets.get(process_set_id)
        if found is None or not any(item is removed for item in found.objects):
            return False
        self._agree(f"remove_process_set {process_set_id} {removed.ranks}")
        self._session.remove_process_set(found.number)
        found.drop()
        del self._sets[process_set_id]
        return True

    def clear(self) -> None:
        """Make the sets unregistered: the session is over."""
        for registered in self._sets.values():
            registered.drop()
        self._sets.clear()
        global_process_set._session = None

    def _agree(self, detail: str) -> None:
        """Block until all ranks make the same change; raise MismatchError on all if they do not."""
        # Made here, not in call.py, which stands on the sets.
        name = f"process_set.change.{self._changes}"
        request = Request(name, Operation.BARRIER, DataType.UINT8, (), 0, 0, detail=detail)
        Flight(self._session, [request]).wait()
        self._changes += 1


def number_of(process_set: ProcessSet) -> int:
    """Return the set's number, for an operation of this rank; raise when it cannot take part."""
    if process_set is global_process_set:
        return 0
    if not process_set.included():
        raise InvalidArgumentError(
            f"this process is not in the {process_set.in_words()}; only its ranks make calls with "
            "it."
        )
    return process_set._number


def registered_number(process_set: ProcessSet) -> int | None:
    """Return the number that the session knows the set by, None if it is not registered. No other
    set of the session ever has it, while an id may be that of a set that was removed."""
    return None if process_set.process_set_id is None else process_set._number


def has_others(process_set: ProcessSet) -> bool:
    """Return whether this process is in the set, and not alone."""
    return process_set.included() and process_set.size() > 1
