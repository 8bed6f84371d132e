"""Operations that a framework has started inside a program of its own, such as a graph.

No Python code waits for them: the thread that runs the program is inside the framework until they
are over. So `Session.wait`, which tells the job when this rank can begin nothing else, hears of
none of them. `Launched` looks after them instead, on a thread that lives as long as they do.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

STUCK_AFTER_S = 4.0  # as long as a wait of Session lasts beside other threads
_LOOK_EVERY_S = 1.0
_BUSY = 0.2  # of a processor; one that only waits wants a hundredth, also on a busy machine
_LINGER_S = 5.0  # a training program launches again soon
_JOIN_LIMIT_S = 5.0  # a look never blocks


class Job(Protocol):
    """What the looking thread asks of the session, and tells it. Nothing blocks."""

    def has_ended(self, handle: int) -> bool:
        """Return whether an operation is over, or released."""

    def claim_stuck(self, name: str) -> bool:
        """Tell the job that this rank begins nothing before the operation has ended, unless a wait
        has said that of another; return whether it was told."""

    def take_back_claim(self) -> None:
        """Tell the job that this is not so any more."""


def _place_of_main_thread() -> object:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return id(frame), None if frame is None else frame.f_lasti


def _wanted_time() -> float:
    """Return for how many seconds the threads of this process have run or waited for a processor:
    on a busy machine, one that calculates may run little."""
    total_ns = 0
    try:
        for task in os.scandir("/proc/self/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                run_ns, wait_ns, _ = Path(task.path, "schedstat").read_text().split()
                total_ns += int(run_ns) + int(wait_ns)
    except (OSError, ValueError):  # a kernel that does not count this
        return time.process_time()
    return total_ns / 1e9 if total_ns else time.process_time()


class Stillness:
    """What can be seen of a rank that waits for another one. One thread at a time.

    All that its program can start is on its way, none of it ends, the main thread stays where it
    is, and the process calculates nothing.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        wanted_time: Callable[[], float] = _wanted_time,
        place: Callable[[], object] = _place_of_main_thread,
    ) -> None:
        """`wanted_time`: for how many seconds the process has wanted a processor. `place`: where
        the main thread is."""
        self._clock = clock
        self._wanted_time = wanted_time
        self._place_now = place
        self._handles: frozenset[int] = frozenset()
        self._place: object = None
        self._since_s: float | None = None  # None: something has happened since the last look
        self._looked_s = self._wanted_s = 0.0

    def look(self, handles: frozenset[int]) -> float:
        """Return for how many seconds nothing has happened, as far as looks have shown."""
        place = self._place_now()
        if handles != self._handles or place != self._place:
            self._handles, self._place, self._since_s = handles, place, None
            return 0.0
        now_s, wanted_s = self._clock(), self._wanted_time()
        is_busy = wanted_s - self._wanted_s > _BUSY * (now_s - self._looked_s)
        if self._since_s is None or is_busy:
            self._since_s = now_s
        self._looked_s, self._wanted_s = now_s, wanted_s
        return now_s - self._since_s


class Launched:
    """The operations that are on their way. Any thread."""

    def __init__(
        self,
        job: Job,
        may_others_call: Callable[[], bool],
        stillness: Stillness | None = None,
    ) -> None:
        """`may_others_call`: whether another thread than the main one may start operations."""
        # The job has this object: by a circle, a session that was left would keep its threads and
        # buffers until Python looks for circles.
        self._job: Job = weakref.proxy(job)
        self._may_others_call = may_others_call
        self._stillness = stillness or Stillness()
        self._changed = threading.Condition()  # guards the next three
        self._open: dict[int, str] = {}
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._claimed: str | None = None  # of the looking thread; `add` takes it back, too
        self._turn = 0

    def add(self, handle: int, name: str) -> None:
        """Look after an operation."""
        with self._changed:
            self._open[handle] = name
            if self._thread is None and not self._is_closed:
                # Its name does not begin as those of threads that start operations.
                self._thread = threading.Thread(
                    target=self._run, name="launched operations", daemon=True
                )
                self._thread.start()
            elif len(self._open) == 1:
                self._changed.notify()
        if self._claimed is not None:
            self._take_back()

    def close(self) -> None:
        """Look no more: the job is not asked or told anything after this."""
        with self._changed:
            self._is_closed = True
            thread = self._thread
            self._changed.notify()
        if thread is not None:
            thread.join(_JOIN_LIMIT_S)

    def _run(self) -> None:
        with contextlib.suppress(ReferenceError):  # the job is gone, without `close`
            while self._wait():
                self.look()

    def _wait(self) -> bool:
        """Block until it is time to look; return False if there is nothing to look after."""
        with self._changed:
            self._changed.wait(_LOOK_EVERY_S if self._open else _LINGER_S)
            if self._open and not self._is_closed:
                return True
            self._thread = None
            return False

    def look(self) -> None:
        """Tell the job if this rank has been stuck long enough, and take it back if it is not."""
        with self._changed:
            for handle in [one for one in self._open if self._job.has_ended(one)]:
                del self._open[handle]
            operations = dict(self._open)
        still_s = self._stillness.look(frozenset(operations))
        if not operations or still_s < STUCK_AFTER_S or self._may_others_call():
            self._take_back()
            return
        self._claim(operations)

    def _claim(self, operations: Mapping[int, str]) -> None:
        # The program waits for all of them, but the job can be told of one. So each has its turn.
        names = list(operations.values())
        self._claimed = names[self._turn % len(names)]
        self._turn += 1
        is_told = self._job.claim_stuck(self._claimed)
        with self._changed:
            is_true = self._open == operations
        if not is_told or not is_true:
            self._take_back()

    def _take_back(self) -> None:
        if self._claimed is not None:
            self._claimed = None
            self._job.take_back_claim()
