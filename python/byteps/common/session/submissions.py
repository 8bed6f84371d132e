"""How many operations of a step have been started."""

from __future__ import annotations

from byteps.common.session.atomic_state import AtomicState


class SubmissionGroup:
    """Counts submissions, so that the last one of a step is known. Any thread, any handler."""

    def __init__(self) -> None:
        self._size_and_count = AtomicState((0, 0))

    def set_size(self, size: int) -> None:
        """Set after how many submissions the count starts again."""
        self._size_and_count.change(lambda _: ((size, 0), None))

    def count(self) -> int:
        """Count one submission and return its place in the group, from 1."""
        return self._size_and_count.change(_count_one)


def _count_one(before: tuple[int, int]) -> tuple[tuple[int, int], int]:
    size, count = before
    place = 1 if count == size else count + 1
    return (size, place), place
