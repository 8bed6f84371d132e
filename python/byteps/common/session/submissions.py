"""How many operations of a step have been started."""

from __future__ import annotations

import threading


class SubmissionGroup:
    """Counts submissions, so that the last one of a step is known. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._size = 0
        self._count = 0

    def set_size(self, size: int) -> None:
        """Set after how many submissions the count starts again."""
        with self._lock:
            self._size, self._count = size, 0

    def count(self) -> int:
        """Count one submission and return its place in the group, from 1."""
        with self._lock:
            self._count += 1
            place = self._count
            if place == self._size:
                self._count = 0
            return place
