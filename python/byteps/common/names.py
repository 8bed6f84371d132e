"""Names for operations that the user has not named: the same on all ranks, by order of calls."""

from __future__ import annotations

import threading
from collections import Counter

from byteps.common.errors import InvalidArgumentError

# So many unnamed calls may be open at once. A job keeps what it knows of a name, for each shape and
# kind of call under it, until its end: more names would cost more.
UNNAMED_CALLS_AT_ONCE = 4096


def unnamed(scope: str, number: int) -> str:
    """Return the name of the unnamed call of that number, from 1, among the ranks of a scope."""
    return f"{scope}noname.{number}"


def unnamed_number(name: str) -> int:
    """Return the number of an unnamed call. REQUIRES: `unnamed` has made the name."""
    return int(name.rpartition(".")[2])


def check_name(name: object) -> None:
    """Refuse what the library takes for no name."""
    if not isinstance(name, str):
        raise InvalidArgumentError(f"name is {name!r}; it must be a text.")
    if not name.isascii():
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InvalidArgumentError(
                f"name is {name!r}; it must be a text that UTF-8 can say, without lone surrogates."
            ) from None


class UnnamedCalls:
    """Counts unnamed calls. Ranks agree if they make the same calls. Any thread.

    All kinds of calls are counted together, so that ranks that make different calls meet under one
    name and are told so.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._taken_back: set[str] = set()

    def name(self, scope: str) -> str:
        """Return a name for the next unnamed call among the ranks that `scope` stands for."""
        with self._lock:
            self._counts[scope] += 1
            name = self._last_name(scope)
            self._taken_back.discard(name)
        return name

    def _last_name(self, scope: str) -> str:
        return unnamed(scope, (self._counts[scope] - 1) % UNNAMED_CALLS_AT_ONCE + 1)

    def take_back(self, name: str) -> None:
        """Do not count the call that has got `name`: not all ranks made it.

        Then those that did and those that did not count alike from here on. A call that later ones
        follow counts until they are taken back, too. Other names are passed over.
        """
        scope, unnamed, _ = name.rpartition("noname.")
        with self._lock:
            if not unnamed or scope not in self._counts:
                return
            self._taken_back.add(name)
            while self._counts[scope] and self._last_name(scope) in self._taken_back:
                self._taken_back.remove(self._last_name(scope))
                self._counts[scope] -= 1

    def begin_again(self) -> None:
        """Count from one again: ranks that made different numbers of calls agree from here on."""
        with self._lock:
            self._counts.clear()
            self._taken_back.clear()


class GivenNames:
    """Keeps names apart that several users have chosen, in the same order on all ranks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def give(self, name: str) -> str:
        """Return the name itself for the first who asks, and one with a number for later ones."""
        with self._lock:
            self._counts[name] += 1
            count = self._counts[name]
        return name if count == 1 else f"{name}#{count}"

    def ending(self, process_set: int | None) -> str:
        """Return what the names of a set's next optimizer end with; nothing for the first of all.

        Ranks agree if they make their optimizers for that set in the same order, whatever else
        they name.
        """
        return self.give(f"@{process_set}" if process_set else "")
