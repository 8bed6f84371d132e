"""A state that any thread and any handler of a signal may change, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

State = TypeVar("State")
Result = TypeVar("Result")


class _Version(Generic[State]):
    """A state that was there once, and the one after it."""

    __slots__ = ("after", "state")

    def __init__(self, state: State) -> None:
        self.state = state
        self.after: dict[int, _Version[State]] = {}


class AtomicState(Generic[State]):
    """Replaces an immutable state as a whole.

    The handler of a signal runs between two steps of the thread that it interrupts. It cannot wait
    for a lock of that thread. If it got in anyway, the thread would overwrite what the handler has
    changed. So a version gets the version after it in one step of Python, which only one of them
    can make. The other one begins again, with the new state.
    """

    def __init__(self, first: State) -> None:
        """Begin with a state."""
        self._newest = _Version(first)

    def value(self) -> State:
        """Return the state as it is now."""
        return self._last().state

    def change(self, step: Callable[[State], tuple[State, Result]]) -> Result:
        """Replace the state by the one that `step` makes of it; return the result of `step`.

        `step` may run several times, and only what it returns counts.
        """
        while True:
            version = self._last()
            state, result = step(version.state)
            mine = _Version(state)
            if version.after.setdefault(0, mine) is mine:
                self._newest = mine
                return result

    def _last(self) -> _Version[State]:
        version = self._newest
        # A thread that was interrupted may have stored an older version after a newer one.
        while version.after:
            version = version.after[0]
        return version
