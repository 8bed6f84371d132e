"""Flights that are futures of torch, and the thread that tells them."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable, Sequence

import torch

from byteps.common.request import Request
from byteps.common.session.flight import Flight, Watch
from byteps.common.session.session import Session


class FutureFlight(Flight):
    """A flight of which there may be a future, and whose end somebody may want to hear of."""

    __slots__ = ("_end", "_future", "_over")

    def __init__(
        self,
        session: Session,
        requests: Sequence[Request],
        finish: Callable[[Flight], object] | None = None,
        keep_alive: object = None,
        watch: Watch | None = None,
        limit_s: float | None = None,
        over: Callable[[], object] | None = None,
    ) -> None:
        """Do as a Flight; `over` is called at its end, at least once, by any thread."""
        self._over = over
        # Complete when the flight is over, and what that makes of it.
        self._end: torch.futures.Future[None] | None = None
        self._future: torch.futures.Future | None = None
        super().__init__(session, requests, finish, keep_alive, watch, limit_s)

    def future(self, teller: Teller) -> torch.futures.Future:
        """Return a future of the result; a thread of ours completes it.

        An error is raised in a callback, and so becomes a RuntimeError with its text:
        `set_exception` would make it a value, which the C++ of torch takes for tensors.
        """
        with self._lock:
            if self._future is not None:
                return self._future
            self._end = torch.futures.Future()
            # Only what is alive is completed: a strong reference would be a circle.
            this = weakref.ref(self)
            self._future = self._end.then(lambda _: _outcome_of(this))
        teller.tell(self)
        return self._future

    def outcome(self) -> object:
        """Return the result of a flight that is over."""
        return _tightly(self.result)

    def loosen(self) -> None:
        """Keep the result's tensors no longer than others do. REQUIRES: the flight is over."""
        with self._lock:
            self.result = _loosely(self.result)
            self._future = None  # whoever asked for it has it

    def _tell(self) -> None:
        """Say that the flight is over, and complete the future, once."""
        if self._over is not None:
            self._over()
        with self._lock:
            end, self._end = self._end, None
        if end is not None:
            end.set_result(None)


def _outcome_of(this: weakref.ref[FutureFlight]) -> object:
    flight = this()
    assert flight is not None, "whoever completes the future has the flight"
    if flight.error is not None:
        raise flight.error
    return flight.outcome()


def _loosely(value: object) -> object:
    """Return a result with weak references in place of its tensors."""
    if isinstance(value, list):
        return [_loosely(item) for item in value]
    return weakref.ref(value) if isinstance(value, torch.Tensor) else value


def _tightly(value: object) -> object:
    """Return a result with its tensors; None stands for one that nobody has any more."""
    if isinstance(value, list):
        return [_tightly(item) for item in value]
    return value() if isinstance(value, weakref.ref) else value


class Teller:
    """One thread that waits for flights, in their order, and so completes their futures.

    It is started with the first flight and ends with `close`.
    """

    _END_S = 1.0

    def __init__(self, name: str) -> None:
        self._name = name
        self._flights: queue.SimpleQueue[Flight | None] = queue.SimpleQueue()
        self._lock = threading.RLock()  # a signal handler may start a flight, too
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

    def close(self) -> threading.Thread | None:
        """End the thread once all flights that it was given are over; return it, if there is one.

        Does not block."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._flights.put(None)
        return thread

    def close_and_wait(self) -> None:
        """Do the same, and wait a moment until it has ended: what it waits for may never be."""
        thread = self.close()
        if thread is not None and thread is not threading.current_thread():
            thread.join(self._END_S)


def _tell_all(flights: queue.SimpleQueue[Flight | None]) -> None:
    """Wait for flight after flight; each keeps its own error for its future."""
    while (flight := flights.get()) is not None:
        try:
            flight.wait()
        except Exception as error:
            flight.give_up(error)
        flight = None
