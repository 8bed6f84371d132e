"""What one process group sends: names that agree on all ranks, and calls that do not."""

from __future__ import annotations

import secrets
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from byteps.common.errors import BytepsError, DeadlineError, InvalidArgumentError, MismatchError
from byteps.common.session import Request, Session
from byteps.torch.distributed.flight import Flight, Teller

# A name stands for one shape for ever, so the calls of a group take turns with few names for each
# shape: this many calls that look alike may be on their way.
_NAMES_PER_SIGNATURE = 16


@dataclass(frozen=True)
class Members:
    """Who belongs to a group: ranks of the job, in the group's order; and the group's number."""

    ranks: tuple[int, ...]
    process_set: int = 0


class Channel:
    """Starts the operations of one group. Any thread.

    Every rank must make the same calls in the same order. Names are numbered for each signature
    (what is done, with which type and shape), so ranks that disagree wait for different names: a
    call that takes long compares itself with those of the other ranks through the store, and ends
    the group with a MismatchError on every rank that finds a difference.
    """

    def __init__(self, session: Session, members: Members, rank: int, name: str, store: Any):
        self.session = session
        self.members = members
        self.rank = rank
        self.name = name
        self.teller = Teller(f"byteps-group-{name}")
        self._store = store
        self._prefix = _agree_on_prefix(store, rank, name)
        self._lock = threading.RLock()
        self._calls: Counter[str] = Counter()
        self._call = 0
        self._in_flight: deque[Flight] = deque()
        self._by_name: dict[str, Flight] = {}
        self._abandoned: list[object] = []
        self._broken: Exception | None = None

    @property
    def size(self) -> int:
        """The number of ranks in the group."""
        return len(self.members.ranks)

    def start(
        self,
        signature: str,
        requests: Sequence[Request],
        finish: Callable[[Flight], object],
        keep_alive: object,
        limit_s: float,
    ) -> Flight:
        """Start a call, which ends the group if it takes longer than `limit_s`. Names it as well.

        Blocks only when as many calls with this signature are on their way as there are names.
        """
        with self._lock:
            if self._broken is not None:
                raise self._broken
            self._call += 1
            self._calls[signature] += 1
            number = self._calls[signature] % _NAMES_PER_SIGNATURE
            name = f"{self._prefix}.{signature}.{number}"
            before = self._by_name.pop(name, None)
            if before is not None and not before.is_over():
                _wait_quietly(before)
            named = [replace(r, name=f"{name}.{i}") for i, r in enumerate(requests)]
            call = _Call(self, self._call, signature, limit_s)
            try:
                flight = Flight(self.session, named, finish, keep_alive, call, limit_s)
            except Exception:
                self._abandoned.append(keep_alive)
                raise
            self._by_name[name] = flight
            self._in_flight.append(flight)
            while self._in_flight and self._in_flight[0].is_over():
                self._in_flight.popleft()
            return flight

    def fail(self, error: Exception) -> None:
        """End the group: open calls and all later ones raise `error`."""
        if self._broken is None:
            self._broken = error
        with self._lock:
            flights, self._in_flight = list(self._in_flight), deque()
            # Their operations may still be in the library, with the memory that it works on.
            self._abandoned += flights
        for flight in flights:
            if not flight.is_over():
                flight.give_up(self._broken)

    def close(self) -> None:
        """End the thread of the group."""
        self.teller.close()

    def compare(self, number: int, signature: str, publish: bool) -> None:
        """Compare a call that takes long with those of the others; raise if they differ."""
        if self._broken is not None:
            raise self._broken
        if publish:
            self._store.set(_late_key(number, self.rank), signature)
        theirs = {}
        for rank in range(self.size):
            if self._store.check([_late_key(number, rank)]):
                theirs[rank] = self._store.get(_late_key(number, rank)).decode()
        if set(theirs.values()) - {signature}:
            said = ", ".join(f"{text} on rank {rank}" for rank, text in sorted(theirs.items()))
            error = MismatchError(
                f"The ranks of group {self.name!r} disagree: call {number} is {said}. Every rank "
                "must make the same calls in the same order, with the same types and shapes. This "
                "group cannot be used any more; the job and other groups can."
            )
            self.fail(error)
            raise error

    def late(self, number: int, signature: str, limit_s: float) -> BytepsError:
        """Return the error for a call that was not complete in time; it ends the group."""
        missing = [r for r in range(self.size) if not self._store.check([_late_key(number, r)])]
        text = f"Call {number} of group {self.name!r}, {signature}, took more than {limit_s:g} s. "
        if missing:
            text += f"Ranks {missing} are not waiting in it. "
        error = DeadlineError(text + "This group cannot be used any more.")
        self.fail(error)
        return error


@dataclass
class _Call:
    """One call of a group, as a flight that takes long sees it."""

    channel: Channel
    number: int
    signature: str
    limit_s: float
    published: bool = False

    def look_around(self) -> None:
        """Compare the call with those of the other ranks."""
        publish, self.published = not self.published, True
        self.channel.compare(self.number, self.signature, publish)

    def late(self) -> BytepsError:
        """Return the error for this call when it was not complete in time."""
        return self.channel.late(self.number, self.signature, self.limit_s)


def _late_key(number: int, rank: int) -> str:
    return f"late/{number}/{rank}"


def _agree_on_prefix(store: Any, rank: int, name: str) -> str:
    """Return the beginning of the group's names: new for each group that there ever was."""
    if rank == 0:
        store.set("names", secrets.token_hex(4))
    return f"c10d.{name}.{store.get('names').decode()}"


def _wait_quietly(flight: Flight) -> None:
    """Wait for a flight whose name is needed; its own waiter gets its error."""
    try:
        flight.wait()
    except Exception:
        if not flight.is_over():
            raise


def members_of_group(session: Session, rank: int, size: int, ranks: Sequence[int]) -> Members:
    """Return who belongs to a group that torch describes; check that torch and byteps agree."""
    world = list(ranks) or list(range(size))
    if world[rank] != session.rank or (not ranks and size != session.size):
        raise InvalidArgumentError(
            f"torch.distributed calls this process rank {world[rank]} of {size}, byteps calls it "
            f"rank {session.rank} of {session.size}. Start the script with 'bps run -np N' and "
            "let byteps say rank and size (no RANK, WORLD_SIZE), or set DMLC_NUM_WORKER, "
            "DMLC_WORKER_ID and BYTEPS_LOCAL_SIZE so that they agree."
        )
    if len(world) == session.size:
        return Members(tuple(world))
    raise InvalidArgumentError(
        f"The group of ranks {world} is a part of the {session.size} ranks of the job; the backend "
        "'byteps' of this version has only groups of all ranks. Create this group with "
        "backend='gloo'."
    )
