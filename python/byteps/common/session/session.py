"""One membership in a job: the native session, and which names are taken in it."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

from byteps.common.errors import (
    BytepsError,
    DeadlineError,
    DuplicateNameError,
    OutOfStepError,
    ShutdownError,
)
from byteps.common.job.launch_notes import JOINED, tell_launcher
from byteps.common.job.launched import Launched
from byteps.common.own_threads import answers_stacks, is_own
from byteps.common.request import NAME_PREFIX, Request, shortened
from byteps.common.same_bits import SameBits
from byteps.common.session.names import (
    GivenNames,
    UnnamedCalls,
    check_name,
    is_usage_name,
    scope_of,
)
from byteps.common.session.open_operations import OpenOperation, OpenOperations
from byteps.common.session.opening import open_native
from byteps.common.session.shared_memory import SharedMemory
from byteps.common.session.submissions import SubmissionGroup
from byteps.common.timeline.timeline import Entry, Recorder, Timeline

if TYPE_CHECKING:
    from byteps import _core

_STUCK_AFTER_MS = 400  # a bit less than an operation takes to be overdue
_STUCK_BESIDE_OTHERS_AFTER_MS = 4000
_LONG_WAIT_S = 60
_TAKE_EVERY_S = 0.1  # of what the library keeps for a timeline
# Threads that have started operations, in any session.
_CALLERS: WeakSet[threading.Thread] = WeakSet()
_LOG = logging.getLogger("byteps")


class Session:
    """The native session. Any thread may use it."""

    def __init__(self, settings: Mapping[str, str] | None = None, number: int = 1) -> None:
        """Join the job that the environment and `settings` describe; block until all have.

        This is the process' session of that `number`.
        """
        self.number = number
        self._process = os.getpid()
        # What plugins keep as long as the session lives, by their own keys.
        self.plugin_state: dict[str, object] = {}
        self._native = open_native([f"{k}={v}" for k, v in (settings or {}).items()])
        tell_launcher(JOINED)
        from byteps import _core

        self._new_ticket, self._new_followers = _core.Ticket, _core.Followers
        # Kept, because data loaders ask for them in forked processes and after shutdown.
        self.rank, self.size = self._native.rank, self._native.size
        self.local_rank = self._native.local_rank
        self.local_size = self._native.local_size
        self.machine = self._native.machine
        self.machine_sizes = self._native.machine_sizes  # how many workers each machine has
        # Whether this program may unpickle what other ranks send (byteps_job_info).
        self.takes_objects = self._native.takes_objects
        # How long an operation may take that has no limit of its own; 0: for ever.
        self.operation_limit_s = self._native.operation_limit_ms // 1000
        self.group = SubmissionGroup()
        self.unnamed = UnnamedCalls()
        self.given = GivenNames()
        self._open = OpenOperations()
        # Names, as users say them, of which a result has one set of contributors.
        self.atomic: set[str] = set()
        self._last_caller: threading.Thread | None = None  # in _CALLERS already
        self._stuck: object = None  # which thread has told the job that it is, or `_launched`
        self._stuck_lock = threading.RLock()  # a signal handler may wait, too
        has_planned = self._open.has_planned  # not `self`, which has the function
        self._launched = Launched(
            self, lambda: has_planned() or _may_call_beside(threading.main_thread())
        )
        self._timeline: Timeline | None = None
        self._recorders: tuple[Recorder, ...] = ()
        self._next_take = 0.0  # of what the library keeps for them
        # What a plugin waits for, with a bound, before this session leaves the job.
        self.before_leaving: list[Callable[[], None]] = []

    def declare(self, name: str, atomic: bool = False) -> None:
        """Give `name` its place in the order of urgency before its first use."""
        check_name(name)
        self._native.declare(NAME_PREFIX + name)
        if atomic:
            self.atomic.add(name)

    def operation(self, request: Request, memory: object, owner: object) -> OpenOperation:
        """Return an operation that works on `memory`, for `begin`, `begin_group` or `abandon`.

        When `owner` goes away, or `abandon` takes it away, the operation goes on. The session then
        releases it when it is over.
        """
        return OpenOperation(request, self._new_ticket(), memory, self._open.owner(owner))

    def start(self, request: Request) -> OpenOperation:
        """Start an operation without an owner; `release` must follow."""
        operation = OpenOperation(request, self._new_ticket())
        try:
            self.begin(operation)
        except BaseException:
            self.abandon([operation])
            raise
        return operation

    def begin(self, operation: OpenOperation) -> None:
        """Start an operation, which must be released or abandoned, also if this raises.

        Its name is taken until then, in all process sets; a second operation of that name is a
        DuplicateNameError. Afterwards all ranks together may use it for anything else.
        """
        self.expect_calls()
        self._keep(operation)
        self._native.start(*operation.request.arguments(), ticket=operation.ticket)
        self._note_start(operation)

    def begin_group(self, operations: Sequence[OpenOperation]) -> _core.Followers:
        """Do `begin` with the first, and with the others once the first has succeeded."""
        self.expect_calls()
        followers = self._new_followers()
        for operation in operations:
            self._keep(operation)
        for operation in operations[1:]:
            followers.add(operation.ticket, *operation.request.arguments())
        first = operations[0]
        arguments = first.request.arguments()
        self._native.start(*arguments, ticket=first.ticket, followers=followers)
        for operation in operations:
            self._note_start(operation)
        return followers

    def wait_for_followers(self, followers: _core.Followers, timeout_ms: int) -> bool:
        """Block until all have started, but not longer; return whether they have.

        Raises the error of a start. If the first operation fails, there is nothing to wait for.
        """
        return self._native.wait_for_followers(followers, timeout_ms)

    def _keep(self, operation: OpenOperation) -> None:
        """Keep an operation from now on, if its name is free."""
        self.sweep()
        holder = self._open.add(operation)
        if holder is not operation:
            raise self._duplicate(holder, operation.request)

    def _note_start(self, operation: OpenOperation) -> None:
        for recorder in self._recorders:
            recorder.start(id(operation), operation.request)

    def expect_calls(self) -> None:
        """Note that the thread which calls this may start operations, itself or through others."""
        thread = threading.current_thread()
        if thread is not self._last_caller:
            _CALLERS.add(thread)
            self._last_caller = thread
        if self._stuck not in (None, thread):
            self._native.set_stuck(None)

    def launch(self, request: Request, ending: _core.Ending) -> None:
        """Start an operation that nobody waits for; `ending` hears how it ended.

        Its name is free again when it has ended. The thread is the framework's: the one that has it
        call must have said `expect_calls`.
        """
        self.sweep()
        try:
            holder = self._open.get(NAME_PREFIX + request.name)
            if holder is not None:
                raise self._duplicate(holder, request)
            handle = self._native.start(*request.arguments(), ending=ending)
        except BytepsError:
            self.unnamed.take_back(request.name)
            raise
        self._launched.add(handle, NAME_PREFIX + request.name)
        if self._recorders:
            self._take_entries(now_and_then=True)

    def hand_over(self, request: Request, push: Callable[..., Any]) -> Any:
        """Give an operation to the engine of a framework, which starts it later, on its own thread.

        `push` gets the address of the native session, and then what `start` of it takes, but for
        the memory. The engine tells how the operation ended.
        """
        self.expect_calls()
        if self._recorders:
            self._take_entries(now_and_then=True)
        return push(
            self._native.address,
            NAME_PREFIX + request.name,
            int(request.operation),
            int(request.dtype),
            request.shape,
            request.root_rank,
            request.priority,
            int(request.combine),
            request.process_set,
            shortened(request.detail),
            request.atomic,
        )

    def _duplicate(self, holder: OpenOperation, request: Request) -> DuplicateNameError:
        what_to_do = (
            "The call was interrupted, or its handle was dropped: the name is free when the other "
            "ranks have made that call, too. Wait for that, or use another name"
            if holder.is_ownerless
            else "Call synchronize on the first handle, or give the second operation another name"
        )
        return DuplicateNameError(
            f"tensor '{holder.name}' is already in flight on rank {self.rank}, with "
            f"{holder.request.describe()}; this is a second call, with {request.describe()}. "
            + what_to_do
        )

    def add_process_set(self, ranks: Sequence[int], number: int) -> None:
        """Make `number` stand for these ranks, on this rank only."""
        self._native.add_process_set(list(ranks), number)

    def remove_process_set(self, number: int) -> None:
        """Forget what `number` stands for, on this rank only."""
        self._native.remove_process_set(number)
        self.unnamed.forget(scope_of(number))

    def is_complete(self, operation: OpenOperation) -> bool:
        """Return whether the operation is over, with or without success."""
        return self._native.poll(operation.ticket.handle) != 0

    def wait(self, operation: OpenOperation, timeout_ms: int = -1) -> None:
        """Block until the operation is over; raise if it failed. Ctrl-C gets through.

        When nothing else of this process can go on meanwhile, the job is told: ranks that wait for
        each other get an OutOfStepError. Other waits of a minute are told as a warning.
        """
        if timeout_ms >= 0:
            self._wait(operation, timeout_ms)
            return
        if self._is_over(operation, _STUCK_AFTER_MS):
            return
        if self._has_other_threads() and self._is_over(operation, _STUCK_BESIDE_OTHERS_AFTER_MS):
            return
        stuck, me = not self._may_others_call(), threading.current_thread()
        try:
            if stuck:
                self._claim_stuck(me, operation.name, overrides=True)
                if self._may_others_call():  # since a moment ago
                    self._native.set_stuck(None)
            waited_s, next_s = 0, _LONG_WAIT_S
            while not self._is_over(operation, next_s * 1000):
                waited_s, next_s = waited_s + next_s, waited_s + next_s
                self._tell_of_wait(operation, waited_s)
        finally:
            if stuck:
                self._take_back_claim(me)

    def _claim_stuck(self, claimant: object, name: str | None, overrides: bool) -> bool:
        """Tell the job that this rank begins nothing before `name` has ended; return False if
        another claimant has said so of another name."""
        with self._stuck_lock:
            if self._stuck not in (None, claimant) and not overrides:
                return False
            self._stuck = claimant
            self._native.set_stuck(name)
            return True

    def _take_back_claim(self, claimant: object) -> None:
        with self._stuck_lock:
            if self._stuck is claimant:
                self._stuck = None
                self._native.set_stuck(None)

    # For operations that are launched.

    def has_ended(self, handle: int) -> bool:
        """Return whether an operation is over, or released."""
        return self._native.poll(handle) != 0

    def claim_stuck(self, name: str) -> bool:
        """Tell the job that this rank begins nothing before `name` has ended, unless a wait has
        said that of another; return whether it was told."""
        return self._claim_stuck(self._launched, name, overrides=False)

    def take_back_claim(self) -> None:
        """Tell the job that this is not so any more."""
        self._take_back_claim(self._launched)

    def _has_other_threads(self) -> bool:
        # The second look finds threads that were not started by `threading`.
        mine = 1 + sum(map(answers_stacks, threading.enumerate()))
        return max(threading.active_count(), len(sys._current_frames())) > mine

    def _may_others_call(self) -> bool:
        """Return whether another thread may start an operation while this one waits.

        One that has never done so, like a progress bar's or a watchdog's, does not count.
        """
        if self._open.has_planned():
            return True
        me = threading.current_thread()
        return me is not threading.main_thread() or _may_call_beside(me)

    def _wait(self, operation: OpenOperation, timeout_ms: int) -> None:
        try:
            self._native.wait(operation.ticket.handle, timeout_ms)
        except OutOfStepError:
            self.unnamed.take_back(operation.request.name)
            raise

    def _is_over(self, operation: OpenOperation, timeout_ms: int) -> bool:
        try:
            self._wait(operation, timeout_ms)
        except DeadlineError:
            if self._native.poll(operation.ticket.handle) == 0:
                return False
            self._wait(operation, 0)  # it has ended since, or that was the operation's own error
        return True

    def _tell_of_wait(self, operation: OpenOperation, waited_s: int) -> None:
        name = operation.name
        if is_usage_name(name):
            waits = f"at the end of a step, to ask which ranks have gradients (tensor '{name}')"
            others = "Another rank has not come to the end of its step: it is late, or makes fewer "
            others += "steps (end with join() then)"
        else:
            waits = f"for tensor '{name}' ({operation.request.describe()})"
            others = "Another rank is late, makes other calls, or makes the same calls in another "
            others += "order"
        how = "with an error that names the missing ranks"
        end = f"To end such a wait {how}, set BYTEPS_OPERATION_TIMEOUT (seconds)"
        if limit_s := self.operation_limit_s:
            end = f"The wait ends {how}, after {limit_s} s (BYTEPS_OPERATION_TIMEOUT)"
        _LOG.warning("rank %d has waited %d s %s. %s. %s.", self.rank, waited_s, waits, others, end)

    def result(self, operation: OpenOperation) -> tuple[int, int, int]:
        """Return (bytes, first dimension, members) of a complete operation."""
        return self._native.result(operation.ticket.handle)

    def received_splits(self, operation: OpenOperation) -> list[int]:
        """Return the rows that a complete alltoall brought from each rank that took part."""
        return self._native.received_splits(operation.ticket.handle)

    def members_of(self, operation: OpenOperation) -> list[int]:
        """Return the ranks that are in every part of a complete operation's result."""
        return self._native.handle_members(operation.ticket.handle)

    def members(self) -> list[int]:
        """Return the ranks that take part in the job now."""
        return self._native.members()

    def is_of_any_layout(self, operation: OpenOperation) -> bool:
        """Return whether every layout gives the bits of a complete operation's result."""
        return self._native.is_of_any_layout(operation.ticket.handle)

    def same_bits(self) -> SameBits:
        """Return what bits of sums depend on in the job now."""
        return SameBits.of(*self._native.sums())

    def copy_result(self, operation: OpenOperation, pointer: int, size_bytes: int) -> None:
        """Copy the rows of a complete allgather or alltoall."""
        self._native.copy_result(operation.ticket.handle, pointer, size_bytes)

    def release(self, operation: OpenOperation) -> None:
        """Forget an operation that is over or has not started; its name is free again."""
        if self._recorders:
            self._note_times(operation)
        if operation.ticket.handle:
            self._native.release(operation.ticket.handle)
        self._open.remove(operation)

    def abandon(self, operations: Iterable[OpenOperation]) -> None:
        """Let operations go on that nobody waits for; their names are free when they are over."""
        for operation in operations:
            self._open.abandon(operation)
        self.sweep()

    def sweep(self) -> None:
        """Release the operations that nobody wants and that are over."""
        for operation in self._open.ownerless():
            if operation.ticket.is_held:
                continue
            if operation.ticket.handle == 0 or self._native.poll(operation.ticket.handle) != 0:
                self.release(operation)

    def _note_times(self, operation: OpenOperation) -> None:
        try:
            begun_ns, ended_ns = self._native.times(operation.ticket.handle)
        except BytepsError:  # it has failed, or was given up
            begun_ns, ended_ns = 0, 0
        for recorder in self._recorders:
            recorder.end(id(operation), begun_ns, ended_ns)
        self._take_entries(now_and_then=True)

    def _take_entries(self, now_and_then: bool = False) -> None:
        """Give what the library has kept for a timeline to the recorders."""
        now = time.monotonic()
        if now_and_then and now < self._next_take:
            return
        self._next_take = now + _TAKE_EVERY_S
        while True:
            taken, lost = self._native.take_timeline()
            entries = [Entry(one[0].removeprefix(NAME_PREFIX), *one[1:]) for one in taken]
            for recorder in self._recorders:
                recorder.take(entries, lost)
            if not taken:
                break
        for recorder in self._recorders:
            if recorder.is_done():
                self._remove_recorder(recorder)

    def record(self, timeline: Timeline | None) -> None:
        """Record operations from now on in `timeline`, and end the one of before; None: in none."""
        before, self._timeline = self._timeline, timeline
        if before is not None:
            self._take_entries()
        if timeline is not None:
            self.add_recorder(timeline)
        if before is not None:
            before.close()
            self._remove_recorder(before)

    def add_recorder(self, recorder: Recorder) -> None:
        """Let this hear of operations until it is done or the session is shut down."""
        self._recorders = (*self._recorders, recorder)
        self._native.set_timeline(True)

    def _remove_recorder(self, recorder: Recorder) -> None:
        self._recorders = tuple(one for one in self._recorders if one is not recorder)
        self._native.set_timeline(bool(self._recorders))

    def shared_memory(self, size_bytes: int) -> SharedMemory:
        """Return memory that other ranks of the machine read where it lies, if they can."""
        address, is_shared = self._native.alloc_shared(size_bytes)
        return SharedMemory(self._native.address, address, size_bytes, is_shared)

    def speed(self) -> tuple[int, float, int]:
        """Return (window in ms, MB/s, end of the window in ms since the epoch)."""
        return self._native.speed()

    def give_up(self, why: str) -> None:
        """Tell the job that this process cannot go on, and why. `shutdown` should follow."""
        self._native.give_up(why)

    def shutdown(self) -> None:
        """Leave the job; open operations end with ShutdownError. Idempotent.

        In a copy of the process, made by fork, this does nothing: the job, its records and what
        waits before the end belong to the process that has opened the session.
        """
        if os.getpid() != self._process:
            return
        # An exception that ends the process has left the others without this rank's next calls.
        if getattr(sys, "last_value", None) is None:
            for wait in self.before_leaving:
                wait()
        try:
            self._native.shutdown()
        finally:
            self._launched.close()
            if self._recorders:
                self._take_entries()
            recorders, self._recorders, self._timeline = self._recorders, (), None
            for recorder in recorders:
                recorder.close()
            self.sweep()

    def close(self) -> None:
        """Say that this process will not come back. REQUIRES: `shutdown`; nobody uses it again."""
        self._native = cast("_core.Session", _Closed())


class _Closed:
    """Stands for a session that is closed, for a thread that still waits while the process ends."""

    def __getattr__(self, name: str) -> Any:
        raise ShutdownError("this process has left the job for good: its session is closed")


def _may_call_beside(thread: threading.Thread) -> bool:
    """Return whether another thread than this one may start operations."""
    others = (other for other in threading.enumerate() if other is not thread)
    return any(
        other in _CALLERS or (is_own(other) and not answers_stacks(other)) for other in others
    )
