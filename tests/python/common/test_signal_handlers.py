"""What a signal handler may do in the middle of a call: the thread cannot wait for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import interruptions
import pytest

from byteps.common import errors
from byteps.common.request import Request
from byteps.common.session import default
from byteps.common.session.flight import Flight
from byteps.common.session.names import GivenNames, UnnamedCalls
from byteps.common.session.submissions import SubmissionGroup
from byteps.common.types import DataType, Operation


class Counting(NamedTuple):
    """What counts, how it is asked, and what it answers."""

    make: Callable[[], Any]
    ask: Callable[[Any], object]
    answers: list[object]


COUNTING = {
    "unnamed calls": Counting(
        UnnamedCalls, lambda calls: calls.name(""), ["noname.1", "noname.2", "noname.3"]
    ),
    "given names": Counting(GivenNames, lambda given: given.give("a"), [1, 2, 3]),
    "kept names": Counting(GivenNames, lambda given: given.keep("a", 1, 1), ["a", "a~1", "a~1~1"]),
    "submissions": Counting(SubmissionGroup, SubmissionGroup.count, [1, 2, 3]),
}
FILES = ("names.py", "submissions.py", "atomic_state.py")


@pytest.mark.parametrize("kind", COUNTING)
def test_a_handler_may_count_at_any_place(kind) -> None:
    make, ask, answers = COUNTING[kind]
    place, there_is_one = 0, True
    while there_is_one:
        place += 1
        counting, seen = make(), []

        def count(counting: Any = counting, seen: list[Any] = seen) -> None:
            seen.append(ask(counting))

        there_is_one = interruptions.at_place(place, count, count, *FILES)
        count()
        assert sorted(seen) == answers[: len(seen)]
        assert len(seen) == 2 + there_is_one
    assert place > 5


def test_a_handler_may_make_a_call_while_one_is_taken_back() -> None:
    place, there_is_one, seen = 0, True, set()
    while there_is_one:
        place += 1
        calls = UnnamedCalls()
        made = [calls.name("") for _ in range(2)]

        def take_back(calls: UnnamedCalls = calls, last: str = made[1]) -> None:
            calls.take_back(last)

        def handler(calls: UnnamedCalls = calls, made: list[str] = made) -> None:
            made.append(calls.name(""))

        there_is_one = interruptions.at_place(place, take_back, handler, *FILES)
        handler()
        seen.add(tuple(made[2:]))
    # The handler's call came after the other was taken back, or before; or there was no handler.
    after, before, without = ("noname.2", "noname.3"), ("noname.3", "noname.4"), ("noname.2",)
    assert seen == {after, before, without}


def test_a_handler_may_wait_for_the_operation_that_it_interrupts(core) -> None:
    place, there_is_one, refused = 0, True, 0
    default.init()
    while there_is_one:
        place += 1
        finished: list[object] = []

        def finish(_: Flight, finished: list[object] = finished) -> str:
            finished.append(None)
            return "made"

        request = Request(f"a{place}", Operation.BARRIER, DataType.UINT8, (), 0, 0)
        flight = Flight(default.current(), [request], finish)

        def handler(flight: Flight = flight) -> None:
            nonlocal refused
            flight.is_over()
            try:
                assert flight.wait() == "made"
            except errors.InvalidArgumentError as error:
                refused += "a signal handler waits for 'a" in str(error)
            flight.give_up(KeyError("too late"))

        there_is_one = interruptions.at_place(place, flight.wait, handler, "flight.py")
        assert flight.wait() == "made"
        assert len(finished) == 1
    assert place > refused > 0
