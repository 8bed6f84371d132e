"""Operations on their way: what ends them, and what is kept of them."""

from __future__ import annotations

import threading

import pytest

from byteps.common import default, errors
from byteps.common.call import Call, start
from byteps.common.errors import DeadlineError, PeerLostError
from byteps.common.flight import Flight
from byteps.common.request import Request
from byteps.common.types import DataType, Operation
from byteps.common.updater import Update, Updater


class Look:
    """A watch that counts how often it looks."""

    def __init__(self) -> None:
        self.looks = 0

    def look_around(self) -> None:
        self.looks += 1

    def explain(self, error: Exception) -> Exception:
        return KeyError(f"explained: {type(error).__name__}")

    def late(self) -> Exception:
        return TimeoutError("late")


def barrier_handle(name: str):
    return start(Call(Operation.BARRIER, name), "cpu", DataType.UINT8, ())


def test_several_operations_of_one_flight(core) -> None:
    default.init()
    requests = [Request(name, Operation.BARRIER, DataType.UINT8, (), 0, 0) for name in "ab"]
    flight = Flight(default.current(), requests, lambda _: "made")
    handle = default.pending().add(flight)
    assert (handle.name, len(flight.handles)) == ("a", 2)
    assert not flight.is_over()
    with pytest.raises(ValueError, match="still on its way"):
        _ = handle.members
    assert default.pending().synchronize(handle) == "made"
    assert handle.members == [0, 1]
    assert flight.is_over()


def test_a_flight_whose_second_operation_cannot_start_leaves_the_first_name_free(core) -> None:
    default.init()
    session = default.current()
    requests = [Request("a", Operation.BARRIER, DataType.UINT8, (), 0, 0) for _ in range(2)]
    with pytest.raises(errors.DuplicateNameError):
        Flight(session, requests)
    handle = barrier_handle("a")
    default.pending().synchronize(handle)


def test_an_error_of_a_watched_flight_is_explained(core) -> None:
    default.init()
    core.failing["byteps.a"] = PeerLostError.code
    request = Request("a", Operation.BARRIER, DataType.UINT8, (), 0, 0)
    flight = Flight(default.current(), [request], watch=Look())
    with pytest.raises(KeyError, match="explained: PeerLostError"):
        flight.wait()
    assert flight.members() == []


def test_a_flight_that_was_given_up_has_that_error_for_all(core) -> None:
    default.init()
    request = Request("a", Operation.BARRIER, DataType.UINT8, (), 0, 0)
    flight = Flight(default.current(), [request])
    flight.give_up(KeyError("enough"))
    flight.give_up(KeyError("again"))
    assert flight.is_settled
    assert flight.is_complete()
    with pytest.raises(KeyError, match="enough"):
        flight.wait()


def test_whoever_waits_for_several_hears_the_first_error_when_all_are_over(core) -> None:
    default.init()
    core.failing["byteps.a"] = PeerLostError.code
    core.failing["byteps.b"] = DeadlineError.code
    handles = [barrier_handle(name) for name in "abc"]
    with pytest.raises(PeerLostError):
        default.pending().synchronize_all(handles)
    assert all(item.complete for item in core.started)
    assert default.pending().synchronize_all(handles) == [None] * 3


def test_an_abandoned_operation_is_let_go_when_it_is_over(core) -> None:
    default.init()
    pending = default.pending()
    handle = barrier_handle("a")
    pending.abandon(handle)
    pending.abandon(handle)
    pending.sweep()
    assert handle in pending._abandoned
    assert pending.synchronize(handle) is None
    core.started[0].complete = True
    pending.sweep()
    assert handle not in pending._abandoned
    barrier_handle("a")  # its name is free again


def test_an_update_that_is_waited_for_by_name_does_not_wait_for_the_others() -> None:
    updater, gate = Updater("byteps-test"), threading.Event()
    updater.submit([Update("a", lambda: None), Update("b", gate.wait)])
    updater.wait(["a", "c"])
    assert not updater.is_pending("a")
    assert updater.is_pending("b")
    gate.set()
    updater.wait()
    assert not updater.is_pending("b")
    updater.close()
    updater.close()
    updater.submit([Update("d", lambda: None)])  # a thread again
    updater.wait()
    updater.close()
