"""Names for operations that the user has not named: the same on all ranks, by order of calls."""

from __future__ import annotations

from typing import NamedTuple

from byteps.common.errors import InvalidArgumentError
from byteps.common.session.atomic_state import AtomicState

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


class _Calls(NamedTuple):
    """The unnamed calls among the ranks of a scope."""

    number: int = 0
    taken_back: frozenset[str] = frozenset()  # names of calls that do not count

    def last(self, scope: str) -> str:
        """Return the name of the last one that counts. REQUIRES: there is one."""
        return unnamed(scope, (self.number - 1) % UNNAMED_CALLS_AT_ONCE + 1)


class UnnamedCalls:
    """Counts unnamed calls. Ranks agree if they make the same calls. Any thread, any handler.

    All kinds of calls are counted together, so that ranks that make different calls meet under one
    name and are told so.
    """

    def __init__(self) -> None:
        self._scopes: dict[str, AtomicState[_Calls]] = {}

    def name(self, scope: str) -> str:
        """Return a name for the next unnamed call among the ranks that `scope` stands for."""

        def count_one(before: _Calls) -> tuple[_Calls, str]:
            calls = _Calls(before.number + 1, before.taken_back)
            name = calls.last(scope)
            if name in calls.taken_back:
                calls = _Calls(calls.number, calls.taken_back - {name})
            return calls, name

        calls = self._scopes.get(scope)
        if calls is None:
            calls = self._scopes.setdefault(scope, AtomicState(_Calls()))
        return calls.change(count_one)

    def take_back(self, name: str) -> None:
        """Do not count the call that has got `name`: not all ranks made it.

        Then those that did and those that did not count alike from here on. A call that later ones
        follow counts until they are taken back, too. Other names are passed over.
        """
        scope, mark, number = name.rpartition("noname.")
        calls = self._scopes.get(scope) if mark and number.isdecimal() else None
        if calls is None:
            return

        def uncount(before: _Calls) -> tuple[_Calls, None]:
            calls = _Calls(before.number, before.taken_back | {name})
            while calls.number and calls.last(scope) in calls.taken_back:
                calls = _Calls(calls.number - 1, calls.taken_back - {calls.last(scope)})
            return calls, None

        calls.change(uncount)

    def forget(self, scope: str) -> None:
        """Nobody makes a call of that scope any more."""
        self._scopes.pop(scope, None)

    def begin_again(self) -> None:
        """Count from one again: ranks that made different numbers of calls agree from here on."""
        self._scopes = {}


class _Given(NamedTuple):
    """The names that are taken. Those who change it make a new one."""

    counts: dict[str, int]  # numbers of a base up to this one
    kept: frozenset[str]  # other names


class GivenNames:
    """The names that objects of one session have, each its own; the same on all ranks, by order of
    calls. Any thread, any handler."""

    def __init__(self) -> None:
        self._given = AtomicState(_Given({}, frozenset()))

    def give(self, base: str) -> int:
        """Return the lowest number, from 1, under which nobody has `base` yet."""

        def take(before: _Given) -> tuple[_Given, int]:
            kept, number = before.kept, before.counts.get(base, 0) + 1
            while numbered(base, number) in kept:
                kept -= {numbered(base, number)}
                number += 1
            return _Given({**before.counts, base: number}, kept), number

        return self._given.change(take)

    def keep(self, base: str, number: int, age: int) -> str:
        """Return a name for what had that number, and nothing else, `age` sessions ago.

        That is the one it had if nobody has it yet: on a rank that has joined since, the same thing
        is new. Otherwise it says the age, so that those of one session may ask in any order.
        """

        def take(before: _Given) -> tuple[_Given, str]:
            name = numbered(base, number)
            if number <= before.counts.get(base, 0):
                name += f"~{age}"
            while name in before.kept:
                name += f"~{age}"
            return _Given(before.counts, before.kept | {name}), name

        return self._given.change(take)


def numbered(base: str, number: int) -> str:
    """Return the name itself for the first that has it, and one with the number for later ones."""
    return base if number == 1 else f"{base}#{number}"
