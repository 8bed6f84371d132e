"""Which of the processes that have ended badly is the cause, and how long to wait for it."""

from __future__ import annotations

import math

from byteps.cli.children import Child

# How long the first failure waits for a cause that shows later. A scheduler that ends itself has
# heard of a loss, and so has a worker whose error is about another one; the worker that is lost may
# have much to do at its exit. If that worker has said that it ends, nobody else is the cause.
_WINDOW_S = 0.5
_WINDOW_OF_THOSE_WHO_HEARD_S = 5.0
_WINDOW_OF_AN_ANNOUNCED_END_S = 30.0


class FirstCause:
    """Finds the first cause among processes that have ended badly, until somebody has reacted."""

    def __init__(self) -> None:
        self._all: list[Child] = []
        self.judge_at: float | None = None  # when to react at the latest

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._all)

    def add(self, child: Child, now: float) -> None:
        """Take one more. REQUIRES: what it has printed was read."""
        self._all.append(child)
        self.judge_at = self._when(child, now)

    def remove(self, child: Child) -> None:
        """Forget one: somebody has reacted."""
        self._all.remove(child)
        if not self._all:
            self.judge_at = None

    def clear(self) -> None:
        """Forget all."""
        self._all.clear()
        self.judge_at = None

    def in_order(self, killed_only: bool) -> list[Child]:
        """Return them, the most likely cause first: kills before all, workers before others, then
        those who chose an exit code, exceptions, and last the exceptions about another process.

        Who ended with an exit code may have done so because of a process that was killed, whose
        connections closed before it counted as ended; so these wait for a moment. Code 1 is
        Python's when nobody catches an exception; another code is somebody's choice.
        """
        ready = [c for c in self._all if not killed_only or (c.status or 0) < 0]
        return sorted(ready, key=_likelihood)

    def _when(self, last: Child, now: float) -> float:
        """Return until when to wait for the cause, after `last` has come.

        The end of the scheduler says that there is a cause elsewhere, and so does an exception
        about another process. Who ends with code 1 beside the scheduler has most likely heard of
        that too, and says nothing new.
        """
        window_s = _WINDOW_OF_THOSE_WHO_HEARD_S
        if last.last_error.awaits_an_end:
            window_s = _WINDOW_OF_AN_ANNOUNCED_END_S
        if all(_has_heard(child) for child in self._all):
            return self.judge_at or now + window_s
        if not any(child.status != 1 and child.spec.is_worker for child in self._all):
            if last.spec.role == "scheduler":
                return now + window_s
            is_named = last.spec.is_worker and last.last_error.text and not _has_heard(last)
            if self.judge_at and not is_named and any(map(_is_scheduler, self._all)):
                return self.judge_at
        return min(now + _WINDOW_S, self.judge_at or math.inf)


def _is_scheduler(child: Child) -> bool:
    return child.spec.role == "scheduler"


def _has_heard(child: Child) -> bool:
    """Return whether it ended because of another process."""
    return child.spec.is_worker and child.status == 1 and child.last_error.is_heard


def _likelihood(child: Child) -> tuple[bool, bool, bool, bool]:
    status = child.status or 0
    return status > 0, not child.spec.is_worker, status == 1, _has_heard(child)
