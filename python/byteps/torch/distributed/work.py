"""What a collective of torch.distributed returns."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from byteps.torch.distributed.flight import FutureFlight, Teller

_NO_LIMIT = timedelta(0)


# Before torch 2.7 a work that only C++ holds loses its Python half, and then C++ waits for ever.
LOSES_PYTHON_HALVES = tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 7)


class Unwaited:
    """Keeps works alive until somebody has waited for them, where torch does not. Any thread.

    Of works that nobody waits for the latest are kept, without their tensors once they are over.
    """

    _KEPT_MAX = 64

    def __init__(self, keeps: bool = LOSES_PYTHON_HALVES) -> None:
        self._keeps = keeps
        self._works: dict[int, FlightWork] = {}
        self._lock = threading.RLock()  # a signal handler may start a work, too

    def keep(self, work: FlightWork) -> None:
        """Keep a new work, if this torch needs that."""
        if not self._keeps:
            return
        with self._lock:
            self._works[id(work)] = work
            oldest = next(iter(self._works)) if len(self._works) > self._KEPT_MAX else None
            dropped = self._works.pop(oldest) if oldest is not None else None
            works = list(self._works.values())
        del dropped  # not under the lock: its end may run anything
        for other in works:
            if other is not work and other.is_completed():
                other.loosen()

    def release(self, work: FlightWork) -> None:
        """Let go of a work that was waited for."""
        with self._lock:
            self._works.pop(id(work), None)


class FlightWork(dist.Work):
    """One or more flights as torch's Work. Errors are those of byteps."""

    def __init__(self, flights: list[FutureFlight], teller: Teller, unwaited: Unwaited) -> None:
        super().__init__()
        self._flights = flights
        self._teller = teller
        self._unwaited = unwaited
        unwaited.keep(self)

    def wait(self, timeout: timedelta = _NO_LIMIT) -> bool:
        """Block until the results are in place; raise if there are none."""
        timeout_s = timeout.total_seconds() if timeout > _NO_LIMIT else None
        try:
            for flight in self._flights:
                flight.wait(timeout_s)
        finally:
            if self.is_completed():
                self._unwaited.release(self)
        return True

    def synchronize(self) -> None:
        """Do the same as `wait`."""
        self.wait()

    def is_completed(self) -> bool:
        """Return whether `wait` would not block."""
        return all(flight.is_over() for flight in self._flights)

    def is_success(self) -> bool:
        """Return whether all is complete and well."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> Exception | None:
        """Return the error of a complete collective."""
        errors = [f.error for f in self._flights if f.is_over() and f.error is not None]
        return errors[0] if errors else None

    def result(self) -> Any:
        """Return the tensors; blocks like `wait`."""
        self.wait()
        return _tensors(self._flights)

    def loosen(self) -> None:
        """Keep the tensors no longer than somebody else does. REQUIRES: the work is complete."""
        for flight in self._flights:
            flight.loosen()

    def get_future(self) -> Any:
        """Return a future of the tensors, which a thread of the group completes."""
        if not self._flights:
            nothing: torch.futures.Future[list[Any]] = torch.futures.Future()
            nothing.set_result([])
            return nothing
        # The last flight's: the thread waits for them in order, and so does the group.
        for flight in self._flights[:-1]:
            flight.future(self._teller)
        last = self._flights[-1].future(self._teller)
        if len(self._flights) == 1:
            return last
        flights = self._flights

        def all_tensors(future: Any) -> Any:
            future.value()
            for flight in flights:
                flight.wait()
            return _tensors(flights)

        return last.then(all_tensors)


def _tensors(flights: list[FutureFlight]) -> list[Any]:
    return [tensor for flight in flights for tensor in _as_list(flight.outcome())]


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]
