"""Operations on their way that several threads may wait for, and the thread that tells futures."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from byteps.common.errors import DeadlineError
from byteps.common.session import Request, Session

# How long a wait stays in the native library before it looks whether the ranks still agree.
LOOK_AROUND_S = 0.5


class Watch(Protocol):
    """Looks at a flight that takes long."""

    def look_around(self) -> None:
        """Raise if the flight can never be complete. Called twice a second; blocks shortly."""

    def explain(self, error: Exception) -> Exception:
        """Return what is raised for an error of the operations or of what finishes them."""

    def late(self) -> Exception:
        """Return the error for a flight that has passed its limit."""


class Flight:
    """Some operations that are started together and make one result. Any thread may wait for it.

    The first thread that finds the operations complete runs `finish`; an error is kept and raised
    to everyone who waits.
    """

    def __init__(
        self,
        session: Session,
        requests: Sequence[Request],
        finish: Callable[[Flight], object],
        keep_alive: object = None,
        watch: Watch | None = None,
        limit_s: float | None = None,
    ) -> None:
        """Start the operations. No wait is longer than `limit_s`."""
        self.session = session
        self.handles: list[int] = []
        self.result: object = None
        self.error: Exception | None = None
        self._finish: Callable[[Flight], object] | None = finish
        self._keep_alive = keep_alive
        self._watch = watch
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._over = threading.Event()
        # Complete when the flight is over, and what that makes of it.
        self._end: torch.futures.Future[None] | None = None
        self._future: torch.futures.Future | None = None
        try:
            for request in requests:
                self.handles.append(session.start(request))
        except Exception:
            for handle in self.handles:
                session.release(handle)
            raise

    def is_over(self) -> bool:
        """Return whether `wait` would not block."""
        if self._over.is_set():
            return True
        with self._lock:
            if self._over.is_set():
                return True
            if not all(self.session.is_complete(handle) for handle in self.handles):
                return False
            self._settle()
        self._tell_future()
        return True

    def wait(self, timeout_s: float | None = None) -> object:
        """Block until the result is there and return it, or raise why there is none.

        After `timeout_s` it is a DeadlineError and the flight goes on; with its own limit it ends.
        """
        limit_s = self._limit_s if timeout_s is None else timeout_s
        deadline = None if limit_s is None else time.monotonic() + limit_s
        for handle in list(self.handles):
            if not self._wait_for(handle, deadline):
                error = DeadlineError(f"The operation was not complete after {limit_s:g} s.")
                if timeout_s is None and self._watch is not None:
                    raise self._watch.late() from error
                raise error
        with self._lock:
            if not self._over.is_set():
                self._settle()
        self._tell_future()
        if self.error is not None:
            raise self.error
        return self.result

    def _wait_for(self, handle: int, deadline: float | None) -> bool:
        """Wait for one operation; return whether it is over. How it ended shows in `_settle`."""
        while not self._over.is_set():
            left_s = LOOK_AROUND_S
            if deadline is not None:
                left_s = min(left_s, max(0.0, deadline - time.monotonic()))
            try:
                self.session.wait(handle, int(left_s * 1000) + 1)
                return True
            except Exception as error:
                if self._over.is_set() or self.session.is_complete(handle):
                    return True
                if not isinstance(error, DeadlineError):
                    raise
            if self._watch is not None:
                self._watch.look_around()
            if deadline is not None and time.monotonic() >= deadline:
                return False
        return True

    def give_up(self, error: Exception) -> None:
        """End the flight with an error; its operations go on, with the memory that they need."""
        with self._lock:
            if self._over.is_set():
                return
            self.error = error
            self._finish = None
            self._over.set()
        self._tell_future()

    def _settle(self) -> None:
        """Make the result. REQUIRES: the lock, and that all operations are complete."""
        try:
            for handle in self.handles:
                self.session.wait(handle, 0)
            if self._finish is not None:
                self.result = self._finish(self)
        except Exception as error:
            self.error = error if self._watch is None else self._watch.explain(error)
        for handle in self.handles:
            self.session.release(handle)
        self._finish = self._keep_alive = self._watch = None
        self._over.set()

    def future(self, teller: Teller) -> torch.futures.Future:
        """Return a future of the result; a thread of ours completes it.

        An error is raised in a callback, and so becomes a RuntimeError with its text:
        `set_exception` would make it a value, which the C++ of torch takes for tensors.
        """
        with self._lock:
            if self._future is not None:
                return self._future
            self._end = torch.futures.Future()
            self._future = self._end.then(self._outcome)
        teller.tell(self)
        return self._future

    def _outcome(self, end: object) -> object:
        if self.error is not None:
            raise self.error
        return self.result

    def _tell_future(self) -> None:
        """Complete the future, once."""
        with self._lock:
            end, self._end = self._end, None
        if end is not None:
            end.set_result(None)


class Teller:
    """One thread that waits for flights, in their order, and so completes their futures.

    It is started with the first flight and ends with `close`.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._flights: queue.SimpleQueue[Flight | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def tell(self, flight: Flight) -> None:
        """Complete the future of `flight` when it is over."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=_tell_all, args=(self._flights,), name=self._name, daemon=True
                )
                self._thread.start()
            self._flights.put(flight)

    def close(self) -> None:
        """End the thread once all flights that it was given are over."""
        with self._lock:
            if self._thread is not None:
                self._flights.put(None)
                self._thread = None


def _tell_all(flights: queue.SimpleQueue[Flight | None]) -> None:
    """Wait for flight after flight; each keeps its own error for its future."""
    while (flight := flights.get()) is not None:
        try:
            flight.wait()
        except Exception as error:
            flight.give_up(error)
        flight = None
