"""What a collective of torch.distributed returns."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist

from byteps.torch.distributed.flight import Flight, Teller

_NO_LIMIT = timedelta(0)


class FlightWork(dist.Work):
    """One or more flights as torch's Work. Errors are those of byteps."""

    def __init__(self, flights: list[Flight], teller: Teller) -> None:
        super().__init__()
        self._flights = flights
        self._teller = teller

    def wait(self, timeout: timedelta = _NO_LIMIT) -> bool:
        """Block until the results are in place; raise if there are none."""
        timeout_s = timeout.total_seconds() if timeout > _NO_LIMIT else None
        for flight in self._flights:
            flight.wait(timeout_s)
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

    def get_future(self) -> Any:
        """Return a future of the tensors, which a thread of the group completes."""
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


def _tensors(flights: list[Flight]) -> list[Any]:
    return [tensor for flight in flights for tensor in _as_list(flight.result)]


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]
