"""Names that objects have for as long as they live, in one session after the other."""

from __future__ import annotations

from collections.abc import Callable

from byteps.common import default
from byteps.common.names import numbered


class OwnName:
    """What keeps the operations of an object apart from those of others of its kind.

    Objects get their names by the order in which they are made. In a later session each has the one
    that it had, unless a new object has it by then; all are settled by the order in which they are
    made, or first used. So ranks agree if they do that in the same order, also those that were not
    in the session before. One thread at a time.
    """

    def __init__(self, base: Callable[[], str]) -> None:
        """Take a name in the present session. `base` is what the first would be called there."""
        session = default.current()
        self._base = base
        self._plain_in = self._seen = session.number
        self._number = session.given.give(base())
        self.text = numbered(base(), self._number)

    def follow(self) -> bool:
        """Have a name in the present session; return whether it is a new session."""
        session = default.current()
        if session.number == self._seen:
            return False
        age = session.number - self._plain_in
        self.text = session.given.keep(self._base(), self._number, age)
        self._seen = session.number
        # The age counts from the last session in which it had its plain name: a rank that joined
        # later, where it is younger, counts the same.
        if self.text == numbered(self._base(), self._number):
            self._plain_in = session.number
        return True


def ending_of(process_set_id: Callable[[], int | None]) -> OwnName:
    """Return what the names of an optimizer end with; nothing for the first of all.

    Ranks agree if they make their optimizers for that set in the same order, whatever else they
    make.
    """

    def base() -> str:
        number = process_set_id()
        return f"@{number}" if number else ""

    return OwnName(base)
