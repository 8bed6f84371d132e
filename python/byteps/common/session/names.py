"""Names for operations that the user has not named: the same on all ranks, by order of calls."""

from __future__ import annotations

import threading
from collections import Counter

from byteps.common.errors import InvalidArgumentError

# So many unnamed calls may be open at once. A job keeps what it knows of a name, for each shape and
# kind of call under it, as long as it is in use: more names would cost more.
UNNAMED_CALLS_AT_ONCE = 4096


def scope_of(process_set: int) -> str:
    """Return what names of unnamed calls begin with: the ranks of a set make calls of their own,
    which the others do not count."""
    return f"set{process_set}." if process_set else ""


def unnamed(scope: str, number: int) -> str:
    """Return the name of the unnamed call of that number, from 1, among the ranks of a scope."""
    return f"{scope}noname.{number}"


def unnamed_number(name: str) -> int:
    """Return the number of an unnamed call. REQUIRES: `unnamed` has made the name."""
    return int(name.rpartition(".")[2])


def usage_name(owner: str) -> str:
    """Return the name under which ranks ask each other who has gradients, at the end of the
    backward pass of a step. `owner`: the optimizer's name, or that of what stands in its place."""
    return f"{owner}.used"


def is_usage_name(name: str) -> bool:
    """Return whether `usage_name` may have made the name."""
    return name.endswith(".used")


def check_name(name: object) -> None:
    """Refuse what the library takes for no name."""
    if not isinstance(name, str):
        raise InvalidArgumentError(f"name is {name!r}; it must be a text.")
    if not name.isascii():
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InvalidArgumentError(
                f"name is {name!r}; UTF-8 cannot encode it, because it has lone surrogates."
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

    def forget(self, scope: str) -> None:
        """Nobody makes a call of that scope any more."""
        with self._lock:
            self._counts.pop(scope, None)
            self._taken_back -= {name for name in self._taken_back if name.startswith(scope)}

    def begin_again(self) -> None:
        """Count from one again: ranks that made different numbers of calls agree from here on."""
        with self._lock:
            self._counts.clear()
            self._taken_back.clear()


class GivenNames:
    """The names that objects of one session have, each its own; the same on all ranks, by order of
    calls. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()  # numbers of a base up to this one are taken
        self._kept: set[str] = set()  # other names that are

    def give(self, base: str) -> int:
        """Return the lowest number, from 1, under which nobody has `base` yet."""
        with self._lock:
            while True:
                self._counts[base] += 1
                number = self._counts[base]
                if numbered(base, number) not in self._kept:
                    return number
                self._kept.remove(numbered(base, number))

    def keep(self, base: str, number: int, age: int) -> str:
        """Return a name for what had that number, and nothing else, `age` sessions ago.

        That is the one it had if nobody has it yet: on a rank that has joined since, the same thing
        is new. Otherwise it says the age, so that those of one session may ask in any order.
        """
        with self._lock:
            name = numbered(base, number)
            if number <= self._counts[base]:
                name += f"~{age}"
            while name in self._kept:
                name += f"~{age}"
            self._kept.add(name)
            return name


def numbered(base: str, number: int) -> str:
    """Return the name itself for the first that has it, and one with the number for later ones."""
    return base if number == 1 else f"{base}#{number}"
