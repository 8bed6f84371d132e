"""What one process group sends: names that agree on all ranks, and calls that do not."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import threading
import weakref
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from byteps.common.errors import (
    BytepsError,
    DeadlineError,
    InvalidArgumentError,
    MismatchError,
    PeerLostError,
)
from byteps.common.request import Request, shortened
from byteps.common.session.bounded_question import BoundedQuestion
from byteps.common.session.flight import LOOK_AROUND_S, Flight
from byteps.common.session.session import Session
from byteps.torch.distributed.flight import FutureFlight, Teller

# Another shape under a name is asked about first, so the calls of a group take turns with few names
# for each shape: this many calls that look alike may be on their way.
_NAMES_PER_SIGNATURE = 16
# The calls are counted in this many places, and each signature has one of them. So a program whose
# shapes change for ever needs no more memory, and no rank must agree with the others about when to
# forget a signature.
_COUNTS = 1024
# How many flights of earlier calls each call looks at: nobody may wait for them.
_LOOKS = 4
_FIRST_NUMBER = 1 << 30
_GLANCE = timedelta(milliseconds=1)
# The library ends what a group has begun so much later than the group ends the call, or than nobody
# has waited for it.
_AFTER_LIMIT_S = 30.0
# A store that is well answers in this time; one that does not may hang.
_ANSWER_S = 0.1
NO_FEWER_RANKS = (
    "torch.distributed cannot go on with fewer ranks: use the operations of byteps.torch, which "
    "can, or start the job again from a checkpoint."
)


class Channel:
    """Starts the operations of one group. Any thread.

    Every rank must make the same calls in the same order. A name has the signature of its call
    (what is done, with which type and shape) and a number, so ranks that disagree wait for
    different names: a call that takes long compares itself with those of the other ranks through
    the store, and ends the group with a MismatchError on every rank that finds a difference.

    What a rank has no part in is no result here, where nobody could tell: if one was lost, the call
    ends with the same PeerLostError on all others, and so does every later one.
    """

    def __init__(
        self, session: Session, ranks: Sequence[int], rank: int, name: str, token: str, store: Any
    ) -> None:
        """Open the channel of these ranks of the job; `rank` is this one's place among them.

        `token` and `name` are the same on all of them, and together on no other channel ever.
        """
        self.session = session
        self.ranks = tuple(ranks)
        self.rank = rank
        self.name = name
        self.token = token
        self.process_set = 0
        self.has_store = True  # as far as is known
        self.teller = Teller(f"byteps-group-{name}")
        weakref.finalize(self, self.teller.close)  # old torch drops groups without a word
        self._store = store
        self._prefix = f"c10d.{name}.{token}"
        self._lock = threading.RLock()
        self._counts = [0] * _COUNTS
        self._call = 0
        # Those that are not over, by the number of the call: a flight has the user's tensors.
        self._in_flight: dict[int, FutureFlight] = {}
        self._by_name: weakref.WeakValueDictionary[str, FutureFlight] = (
            weakref.WeakValueDictionary()
        )
        self._broken: Exception | None = None
        if len(self.ranks) < session.size:
            self.process_set = _number_of(self._prefix)
            session.add_process_set(self.ranks, self.process_set)

    @property
    def size(self) -> int:
        """The number of ranks in the group."""
        return len(self.ranks)

    def start(
        self,
        signature: str,
        requests: Sequence[Request],
        finish: Callable[[Flight], object],
        keep_alive: object,
        limit_s: float,
    ) -> FutureFlight:
        """Start a call, which ends the group if it takes longer than `limit_s`. Names it as well.

        Blocks only when as many calls with this signature are on their way as there are names.
        """
        with self._lock:
            if self._broken is not None:
                raise self._broken
            self._call += 1
            name = self._next_name(signature)
            before = self._by_name.get(name)
            if before is not None and not before.is_over():
                _wait_quietly(before)
            for i, request in enumerate(requests):
                request.name, request.process_set = f"{name}.{i}", self.process_set
                request.limit_s = limit_s + _AFTER_LIMIT_S
            call = _Call(self, self._call, signature, limit_s)
            settle = partial(self._finish_whole, signature, finish)
            over = partial(self._in_flight.pop, self._call, None)
            flight = FutureFlight(self.session, requests, settle, keep_alive, call, limit_s, over)
            self._by_name[name] = self._in_flight[self._call] = flight
            self._settle_some()
            return flight

    def _next_name(self, signature: str) -> str:
        place = zlib.crc32(signature.encode()) % _COUNTS
        self._counts[place] = (self._counts[place] + 1) % _NAMES_PER_SIGNATURE
        return f"{self._prefix}.{shortened(signature)}.{self._counts[place]}"

    def _settle_some(self) -> None:
        """Make the results of some earlier calls that are complete, and let go of these calls."""
        calls = list(self._in_flight)
        for look in range(min(_LOOKS, len(calls))):
            call = calls[(self._call * _LOOKS + look) % len(calls)]
            flight = self._in_flight.get(call)
            if flight is not None and flight.is_over():
                self._in_flight.pop(call, None)

    def fail(self, error: Exception) -> None:
        """End the group: open calls and all later ones raise `error`."""
        if self._broken is None:
            self._broken = error
        with self._lock:
            flights = list(self._in_flight.values())
        for flight in flights:
            if not flight.is_over():
                flight.give_up(self._broken)

    def close(self) -> None:
        """End the thread of the group, and its process set unless something is open in it."""
        self.teller.close_and_wait()
        if self.process_set:
            with contextlib.suppress(BytepsError):
                self.session.remove_process_set(self.process_set)

    def _finish_whole(
        self, signature: str, finish: Callable[[Flight], object], flight: Flight
    ) -> object:
        """Make the result, if every rank has its part in it: so say the receipts, all alike."""
        for place in range(len(flight.operations)):
            members = set(flight.members_of(place))
            lost = [rank for rank in self.ranks if rank not in members]
            if lost:
                raise PeerLostError(
                    f"group {self.name!r} has lost rank {', '.join(map(str, lost))} of the job, "
                    f"so {signature} does not contain its contribution"
                )
        return finish(flight)

    def check(self) -> None:
        """Raise if the group has ended."""
        if self._broken is not None:
            raise self._broken

    def ask(self, number: int, signature: str) -> dict[int, str]:
        """Tell the others of a call that takes long; return what the ranks say who told of it.

        Blocks as long as the store does.
        """
        self._store.set(_late_key(number, self.rank), signature)
        said = {}
        for rank in range(self.size):
            if _is_there(self._store, _late_key(number, rank)):
                said[rank] = self._store.get(_late_key(number, rank)).decode()
        return said

    def compare(self, number: int, signature: str, said: Mapping[int, str]) -> None:
        """Raise if a call is another one on other ranks."""
        if set(said.values()) - {signature}:
            theirs = ", ".join(f"{text} on rank {rank}" for rank, text in sorted(said.items()))
            error = MismatchError(
                f"The ranks of group {self.name!r} disagree: call {number} is {theirs}. Every rank "
                "must make the same calls in the same order, with the same types and shapes. This "
                "group cannot be used any more; the job and other groups can."
            )
            self.fail(error)
            raise error

    def late(self, call: _Call) -> BytepsError:
        """Return the error for a call that was not complete in time; it ends the group."""
        text = f"Call {call.number} of group {self.name!r}, {call.signature}, took more than "
        text += f"{call.limit_s:g} s. "
        said = range(self.size) if call.said is None else call.said
        missing = [rank for rank in range(self.size) if rank not in said]
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
    said: Mapping[int, str] | None = None  # what the ranks that wait in it call it
    question: BoundedQuestion[dict[int, str]] | None = None

    def look_around(self) -> None:
        """Compare the call with those of the other ranks, if the store answers.

        It may not: the process that serves it may stand still, or be gone. Of that the job learns
        in another way, which ends the call.
        """
        self.channel.check()
        if not self.channel.has_store:
            return
        ask = partial(self.channel.ask, self.number, self.signature)
        question = self.question = self.question or BoundedQuestion(ask)
        if not question.wait(_ANSWER_S):
            return
        self.question = None
        try:
            self.said = question.answer()
        except RuntimeError:  # torch's, about the store; another one would be printed each time
            self.channel.has_store = False
            return
        self.channel.compare(self.number, self.signature, self.said)

    def late(self) -> BytepsError:
        """Return the error for this call when it was not complete in time."""
        return self.channel.late(self)

    def explain(self, error: Exception) -> Exception:
        """Say what can be done about a rank that was lost."""
        if not isinstance(error, PeerLostError):
            return error
        return PeerLostError(f"{str(error).rstrip('.')}. {NO_FEWER_RANKS}")


def _late_key(number: int, rank: int) -> str:
    return f"late/{number}/{rank}"


def _is_there(store: Any, key: str) -> bool:
    """Return whether the store has the key, without waiting for it."""
    if hasattr(store, "check"):
        return bool(store.check([key]))
    try:  # the stores of old torch can only be waited for
        store.wait([key], _GLANCE)
    except RuntimeError:
        return False
    return True


def agree_on_token(session: Session, ranks: Sequence[int], rank: int, store: Any) -> str:
    """Return a random text that is the same on all ranks of the group that has this store."""

    def ask() -> str:
        if rank == 0:
            store.set("token", secrets.token_hex(8))
        return str(store.get("token").decode())

    question = BoundedQuestion(ask)
    while not question.wait(LOOK_AROUND_S):
        _check_present(session, ranks)
    try:
        return question.answer()
    except RuntimeError:
        _check_present(session, ranks)
        raise


def _check_present(session: Session, ranks: Sequence[int]) -> None:
    """Raise if a rank that a new group needs was lost: one of its own, or 0, with the store."""
    members = session.members()
    lost = sorted({0, *ranks} - set(members))
    if lost:
        raise PeerLostError(
            f"a new group cannot be made: the job has lost rank {', '.join(map(str, lost))}. "
            f"{NO_FEWER_RANKS}"
        )


def _number_of(prefix: str) -> int:
    """Return the number of a process set: beyond those of users, and different for each channel.

    Only its ranks know of it, so it is drawn, not counted: of 1000 channels two have the same in
    one job of 2000, and then the job ends with an error that says so.
    """
    digest = hashlib.blake2b(prefix.encode(), digest_size=4).digest()
    return _FIRST_NUMBER | (int.from_bytes(digest, "little") % _FIRST_NUMBER)


def _wait_quietly(flight: FutureFlight) -> None:
    """Wait for a flight whose name is needed; its own waiter gets its error."""
    try:
        flight.wait()
    except Exception:
        if not flight.is_over():
            raise


def _how_to_agree(session: Session, ranks: Sequence[int]) -> str:
    """Return what to do where torch and byteps know different ranks."""
    if session.size > 1:
        return (
            "Start the script with 'bps run -np N' and let byteps say rank and size (no RANK, "
            "WORLD_SIZE), or set DMLC_NUM_WORKER, DMLC_WORKER_ID and BYTEPS_LOCAL_SIZE so that "
            "they agree."
        )
    if ranks:
        return (
            "Only a group of all ranks can tell byteps who they are: make one of the backend "
            "'byteps' before this group, or start the program with torchrun or 'bps run'."
        )
    return (
        "It has joined a job of one process before, by bps.init() or by DMLC_NUM_WORKER: call "
        "init_process_group first, which tells byteps who the ranks are."
    )


def ranks_of_group(session: Session, rank: int, size: int, ranks: Sequence[int]) -> Sequence[int]:
    """Return the ranks of a group that torch describes; check that torch and byteps agree."""
    group = list(ranks) or list(range(size))
    if group[rank] != session.rank or (not ranks and size != session.size):
        raise InvalidArgumentError(
            f"torch.distributed calls this process rank {group[rank]} of {size}, byteps calls it "
            f"rank {session.rank} of {session.size}. {_how_to_agree(session, ranks)}"
        )
    if group != sorted(group):
        raise InvalidArgumentError(
            f"The ranks {group} of a group are not in rising order, as byteps has them."
        )
    return group
