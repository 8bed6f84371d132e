"""One membership in a job: the native session, and which names are taken in it."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from byteps.common.errors import BytepsError, DeadlineError, DuplicateNameError, OutOfStepError
from byteps.common.launched import Launched
from byteps.common.names import GivenNames, UnnamedCalls, check_name, is_usage_name
from byteps.common.request import Request, shortened
from byteps.common.shared_memory import SharedMemory
from byteps.common.submissions import SubmissionGroup
from byteps.common.timeline import Entry, Recorder, Timeline

if TYPE_CHECKING:
    from byteps import _core

NAME_PREFIX = "byteps."

_OWN_THREADS = "byteps-"  # how the names of this package's threads begin
_STUCK_AFTER_MS = 400  # a bit less than an operation takes to be overdue
_STUCK_BESIDE_OTHERS_AFTER_MS = 4000
_LONG_WAIT_S = 60
_TAKE_EVERY_S = 0.1  # of what the library keeps for a timeline
_BREAK_OFF_LIMIT_S = 5  # a bit more than a session takes to leave, if its scheduler is there
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
        # What plugins keep as long as the session lives, by their own keys.
        self.plugin_state: dict[str, object] = {}
        self._native = _open_interruptible([f"{k}={v}" for k, v in (settings or {}).items()])
        # Kept, because data loaders ask for them in forked processes and after shutdown.
        self.rank = self._native.rank
        self.size = self._native.size
        self.local_rank = self._native.local_rank
        self.local_size = self._native.local_size
        self.machine = self._native.machine
        self.machine_sizes = self._native.machine_sizes  # how many workers each machine has
        self.group = SubmissionGroup()
        self.unnamed = UnnamedCalls()
        self.given = GivenNames()
        # Names of operations that nobody has released, and what they stand for.
        self._taken: dict[str, Request] = {}
        # Names, as users say them, of which a result has one set of contributors.
        self.atomic: set[str] = set()
        self._names: dict[int, str] = {}
        self._last_caller: threading.Thread | None = None  # in _CALLERS already
        self._stuck: object = None  # which thread has told the job that it is, or `_launched`
        self._stuck_lock = threading.RLock()  # a signal handler may wait, too
        self._launched = Launched(self, lambda: _may_call_beside(threading.main_thread()))
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

    def start(self, request: Request) -> int:
        """Start an operation and return its handle, which must be released.

        Its name is taken until then, in all process sets; a second operation of that name is a
        DuplicateNameError. Afterwards all ranks together may use it for anything else.
        """
        self.expect_calls()
        name = NAME_PREFIX + request.name
        holder = self._taken.setdefault(name, request)
        if holder is not request:
            raise self._duplicate(name, holder, request)
        try:
            handle = self._submit(name, request)
        except BaseException:
            del self._taken[name]
            raise
        self._names[handle] = name
        for recorder in self._recorders:
            recorder.start(handle, request)
        return handle

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
        name = NAME_PREFIX + request.name
        holder = self._taken.get(name)
        if holder is not None:
            raise self._duplicate(name, holder, request)
        self._launched.add(self._submit(name, request, ending), name)
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

    def _duplicate(self, name: str, holder: Request, request: Request) -> DuplicateNameError:
        return DuplicateNameError(
            f"tensor '{name}' is already in flight on rank {self.rank}, with "
            f"{holder.describe()}; this is a second call, with {request.describe()}. Call "
            "synchronize on the first handle, or give the second operation another name"
        )

    def _submit(self, name: str, request: Request, ending: _core.Ending | None = None) -> int:
        request.detail = shortened(request.detail)
        return self._native.start(
            name,
            int(request.operation),
            int(request.dtype),
            request.shape,
            request.input_pointer,
            request.output_pointer,
            request.root_rank,
            request.priority,
            combine=int(request.combine),
            process_set=request.process_set,
            detail=request.detail,
            splits=request.splits,
            atomic=request.atomic,
            **({} if ending is None else {"ending": ending}),
        )

    def add_process_set(self, ranks: Sequence[int], number: int) -> None:
        """Make `number` stand for these ranks, on this rank only."""
        self._native.add_process_set(list(ranks), number)

    def remove_process_set(self, number: int) -> None:
        """Forget what `number` stands for, on this rank only."""
        self._native.remove_process_set(number)

    def is_complete(self, handle: int) -> bool:
        """Return whether the operation is over, with or without success."""
        return self._native.poll(handle) != 0

    def wait(self, handle: int, timeout_ms: int = -1) -> None:
        """Block until the operation is over; raise if it failed. Ctrl-C gets through.

        When nothing else of this process can go on meanwhile, the job is told: ranks that wait for
        each other get an OutOfStepError. Other waits of a minute are told as a warning.
        """
        if timeout_ms >= 0:
            self._wait(handle, timeout_ms)
            return
        if self._is_over(handle, _STUCK_AFTER_MS):
            return
        if self._has_other_threads() and self._is_over(handle, _STUCK_BESIDE_OTHERS_AFTER_MS):
            return
        stuck, me = not self._may_others_call(), threading.current_thread()
        try:
            if stuck:
                self._claim_stuck(me, self._names.get(handle), overrides=True)
                if self._may_others_call():  # since a moment ago
                    self._native.set_stuck(None)
            waited_s, next_s = 0, _LONG_WAIT_S
            while not self._is_over(handle, next_s * 1000):
                waited_s, next_s = waited_s + next_s, waited_s + next_s
                self._tell_of_wait(handle, waited_s)
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

    def claim_stuck(self, name: str) -> bool:
        """Tell the job that this rank begins nothing before `name` has ended, unless a wait has
        said that of another; return whether it was told."""
        return self._claim_stuck(self._launched, name, overrides=False)

    def take_back_claim(self) -> None:
        """Tell the job that this is not so any more."""
        self._take_back_claim(self._launched)

    def _has_other_threads(self) -> bool:
        # The second look finds threads that were not started by `threading`.
        return threading.active_count() > 1 or len(sys._current_frames()) > 1

    def _may_others_call(self) -> bool:
        """Return whether another thread may start an operation while this one waits.

        One that has never done so, like a progress bar's or a watchdog's, does not count.
        """
        me = threading.current_thread()
        return me is not threading.main_thread() or _may_call_beside(me)

    def _wait(self, handle: int, timeout_ms: int) -> None:
        try:
            self._native.wait(handle, timeout_ms)
        except OutOfStepError:
            self.unnamed.take_back(self._names.get(handle, "").removeprefix(NAME_PREFIX))
            raise

    def _is_over(self, handle: int, timeout_ms: int) -> bool:
        try:
            self._wait(handle, timeout_ms)
        except DeadlineError:
            if self._native.poll(handle) == 0:
                return False
            self._wait(handle, 0)  # it has ended since, or that was the operation's own error
        return True

    def _tell_of_wait(self, handle: int, waited_s: int) -> None:
        name = self._names.get(handle, "")
        if is_usage_name(name):
            waits = f"at the end of a step, to ask which ranks have gradients (tensor '{name}')"
            others = "Another rank has not come to the end of its step: it is late, or makes fewer "
            others += "steps (end with join() then)"
        else:
            request = self._taken.get(name)
            what = f" ({request.describe()})" if request is not None else ""
            waits = f"for tensor '{name}'{what}"
            others = "Another rank is late, makes other calls, or makes the same calls in another "
            others += "order"
        _LOG.warning(
            "rank %d has waited %d s %s. %s. To end such a wait with an error that names the "
            "missing ranks, set BYTEPS_OPERATION_TIMEOUT (seconds).",
            self.rank, waited_s, waits, others,
        )  # fmt: skip

    def result(self, handle: int) -> tuple[int, int, int]:
        """Return (bytes, first dimension, members) of a complete operation."""
        return self._native.result(handle)

    def received_splits(self, handle: int) -> list[int]:
        """Return the rows that a complete alltoall brought from each rank that took part."""
        return self._native.received_splits(handle)

    def handle_members(self, handle: int) -> list[int]:
        """Return the ranks that are in every part of a complete operation's result."""
        return self._native.handle_members(handle)

    def members(self) -> list[int]:
        """Return the ranks that take part in the job now."""
        return self._native.members()

    def copy_result(self, handle: int, pointer: int, size_bytes: int) -> None:
        """Copy the rows of a complete allgather or alltoall."""
        self._native.copy_result(handle, pointer, size_bytes)

    def release(self, handle: int) -> None:
        """Forget a handle; its name is free again."""
        if self._recorders:
            self._note_times(handle)
        self._native.release(handle)
        name = self._names.pop(handle, None)
        if name is not None:
            self._taken.pop(name, None)

    def _note_times(self, handle: int) -> None:
        try:
            begun_ns, ended_ns = self._native.times(handle)
        except BytepsError:  # it has failed, or was given up
            begun_ns, ended_ns = 0, 0
        for recorder in self._recorders:
            recorder.end(handle, begun_ns, ended_ns)
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
        """Leave the job; open operations end with ShutdownError. Idempotent."""
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

    def close(self) -> None:
        """Say that this process will not come back. REQUIRES: `shutdown`; nobody uses it again."""
        del self._native


def _may_call_beside(thread: threading.Thread) -> bool:
    """Return whether another thread than this one may start operations."""
    others = (other for other in threading.enumerate() if other is not thread)
    return any(other in _CALLERS or other.name.startswith(_OWN_THREADS) for other in others)


def _open_interruptible(settings: list[str]) -> _core.Session:
    """Open a native session on a helper thread, so that Ctrl-C ends the wait for the others.

    An exception of a signal handler ends the joining, too: this process is not in the job then.
    """
    from byteps import _core

    opening = _core.Opening()
    ended = threading.Event()
    result: list[_core.Session] = []
    errors: list[BaseException] = []

    def open_session() -> None:
        try:
            result.append(_core.Session(settings, opening))
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    try:
        threading.Thread(target=open_session, name="byteps-open", daemon=True).start()
        ended.wait()
    except BaseException:
        opening.break_off()
        # What can take longer is the end of a question to a name server: not joined yet.
        ended.wait(_BREAK_OFF_LIMIT_S)
        for session in result:  # it was through
            session.shutdown()
        raise
    if errors:
        raise errors[0]
    return result[0]
