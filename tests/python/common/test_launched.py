"""What is told of operations that frameworks start, for which no Python code waits."""

from __future__ import annotations

import sys
import threading

import pytest
from processes import clean_environment, finish, launch

from byteps.common.job.launched import STUCK_AFTER_S, Launched, Stillness


class Job:
    """A session that remembers what it was told."""

    def __init__(self) -> None:
        self.over: set[int] = set()
        self.told: list[str | None] = []
        self.is_taken = False  # a wait has claimed something else

    def has_ended(self, handle: int) -> bool:
        return handle in self.over

    def claim_stuck(self, name: str) -> bool:
        if not self.is_taken:
            self.told.append(name)
        return not self.is_taken

    def take_back_claim(self) -> None:
        self.told.append(None)


class World:
    """A process whose time the test makes, and that looks when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Launched, "_wait", lambda _: False)  # nothing happens on the thread
        self.now_s = 100.0
        self.busy_s = 7.0
        self.others_call = False
        self.job = Job()
        self.place = "here"
        stillness = Stillness(lambda: self.now_s, lambda: self.busy_s, lambda: self.place)
        self.launched = Launched(self.job, lambda: self.others_call, stillness)

    def look(self, calculates: float = 0.0) -> list[str | None]:
        """Look a second later; return what the job was told."""
        self.now_s += 1.0
        self.busy_s += calculates
        self.launched.look()
        told, self.job.told = self.job.told, []
        return told

    def wait(self, calculates: float = 0.0) -> list[str | None]:
        """Look as long as it takes until a rank that stands still says so."""
        return [one for _ in range(int(STUCK_AFTER_S) + 2) for one in self.look(calculates)]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_rank_that_stands_still_says_what_it_waits_for(world) -> None:
    world.launched.add(1, "a")
    assert world.wait() == ["a"]
    world.job.over.add(1)
    assert world.look() == [None]
    assert world.wait() == []


def test_each_operation_that_is_waited_for_has_its_turn(world) -> None:
    for handle, name in enumerate("abc"):
        world.launched.add(handle, name)
    world.wait()
    assert [world.look() for _ in range(4)] == [["b"], ["c"], ["a"], ["b"]]


def test_a_rank_that_calculates_is_not_stuck(world) -> None:
    world.launched.add(1, "a")
    assert world.wait(calculates=0.5) == []
    assert world.wait()[0] == "a"
    assert world.look(calculates=0.5) == [None]


def test_calculation_is_seen() -> None:
    # In a process of its own: here a thread of an earlier test may end, and its time goes with it.
    script = (
        "import time\n"
        "from byteps.common.job.launched import _wanted_time\n"
        "before = _wanted_time()\n"
        "end_s = time.process_time() + 0.2\n"
        "while time.process_time() < end_s:\n"
        "    pass\n"
        "assert _wanted_time() - before > 0.1\n"
    )
    code, _, err = finish(launch([sys.executable, "-c", script], clean_environment()))
    assert code == 0, err


def test_what_begins_or_ends_shows_that_a_rank_goes_on(world) -> None:
    world.launched.add(1, "a")
    world.wait()
    world.launched.add(2, "b")  # at once, not with the next look
    assert world.job.told == [None]
    world.job.told = []
    assert world.wait() != []
    world.job.over.add(1)
    assert world.look() == [None]
    assert world.look() == []


def test_a_main_thread_that_moves_shows_that_a_rank_goes_on(world) -> None:
    world.launched.add(1, "a")
    assert world.wait() == ["a"]
    world.place = "there"
    assert world.look() == [None]
    for place in range(10):
        world.place = str(place)
        assert world.look() == []


def test_other_threads_that_start_operations_may_go_on(world) -> None:
    world.launched.add(1, "a")
    world.others_call = True
    assert world.wait() == []


def test_a_wait_that_has_said_what_it_waits_for_is_not_contradicted(world) -> None:
    world.launched.add(1, "a")
    world.job.is_taken = True
    assert world.wait() == [None]


def test_the_thread_ends_with_the_session() -> None:
    def looking() -> set[threading.Thread]:
        return {t for t in threading.enumerate() if t.name == "launched operations"}

    before = looking()  # those of earlier tests may still be ending
    job = Job()
    launched = Launched(job, lambda: False)
    for handle in range(100):
        launched.add(handle, str(handle))
        launched.close()
    assert looking() <= before
    launched.add(101, "after the end")
    assert looking() <= before


def test_a_thread_that_looks_in_time(core) -> None:
    """The session's own thread comes to the same end, in a session that launches."""
    import byteps.numpy as bps
    from byteps.common.operations.call import Call, request_of
    from byteps.common.session import default
    from byteps.common.types import DataType, Operation

    bps.init()
    session = default.current()
    call = Call(Operation.BARRIER, "meeting")
    told = threading.Event()
    claim = session.claim_stuck

    def heard(name: str) -> bool:
        told.set()
        return claim(name)

    session.claim_stuck = heard
    session.launch(request_of(session, call, "cpu", DataType.UINT8, ()), None)
    assert told.wait(60)
    assert core.stuck[0] == "byteps.meeting"
    bps.shutdown()
