"""Operations on their way: what ends them, and what is kept of them."""

from __future__ import annotations

import gc
import threading
import weakref
from functools import partial
from typing import Any

import pytest

from byteps.common import errors
from byteps.common.errors import DeadlineError, PeerLostError
from byteps.common.gradients.updater import Update, Updater
from byteps.common.operations.call import Call, start
from byteps.common.request import Request
from byteps.common.session import default
from byteps.common.session.flight import Chain, Flight
from byteps.common.session.pending import Handle
from byteps.common.types import DataType, Operation


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
    assert (handle.name, len(flight.operations)) == ("a", 2)
    assert not flight.is_over()
    with pytest.raises(ValueError, match="still on its way"):
        _ = handle.members
    with pytest.raises(ValueError, match="still on its way"):
        _ = handle.any_layout
    assert default.pending().synchronize(handle) == "made"
    assert handle.members == [0, 1]
    assert handle.any_layout
    assert flight.is_over()


def test_a_flight_has_the_bits_of_any_layout_if_all_its_operations_have(core) -> None:
    default.init()
    requests = [Request(name, Operation.BARRIER, DataType.UINT8, (), 0, 0) for name in "ab"]
    handle = default.pending().add(Flight(default.current(), requests, lambda _: "made"))
    core.of_one_layout.add(core.names()[1])
    assert default.pending().synchronize(handle) == "made"
    assert not handle.any_layout


def test_a_flight_whose_second_operation_cannot_start_frees_the_first_name_at_its_end(core) -> None:
    default.init()
    session = default.current()
    requests = [Request("a", Operation.BARRIER, DataType.UINT8, (), 0, 0) for _ in range(2)]
    with pytest.raises(errors.DuplicateNameError):
        Flight(session, requests)
    with pytest.raises(errors.DuplicateNameError, match="was interrupted"):
        barrier_handle("a")
    core.started[0].complete = True  # by the other ranks, which have made the call
    handle = barrier_handle("a")
    default.pending().synchronize(handle)


def test_a_call_without_a_name_that_does_not_start_does_not_count(core, monkeypatch) -> None:
    """Because the other ranks, on which it started, take it back, too."""
    default.init()
    native: Any = default.current()._native
    unnamed = partial(start, Call(Operation.BARRIER), "cpu", DataType.UINT8, ())
    default.pending().synchronize(unnamed())

    def refused(*_: object, **__: object) -> int:
        raise Interrupted

    for place in (native, default.current()):  # in the library's start, and before
        with monkeypatch.context() as patch:
            patch.setattr(place, "start" if place is native else "begin", refused)
            with pytest.raises(Interrupted):
                unnamed()
    for _ in range(2):
        default.pending().synchronize(unnamed())
    assert core.names() == [f"byteps.noname.{number}" for number in (1, 2, 3)]


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


def test_threads_that_wait_for_one_failed_operation_all_hear_the_error(core, monkeypatch) -> None:
    default.init()
    core.failing["byteps.a"] = PeerLostError.code
    pending, handle = default.pending(), barrier_handle("a")
    flight = weakref.ref(pending._pending[int.__int__(handle)])
    native: Any = default.current()._native
    native_wait = native.wait
    all_wait, first_is_done, seen = threading.Barrier(2), threading.Event(), []

    def wait(number: int, timeout_ms: int) -> None:
        all_wait.wait(60)
        if threading.current_thread() is second:
            assert first_is_done.wait(60)
        native_wait(number, timeout_ms)

    def synchronize() -> None:
        try:
            seen.append(pending.synchronize(handle))
        except Exception as error:
            seen.append(str(error))

    monkeypatch.setattr(native, "wait", wait)
    second = threading.Thread(target=synchronize)
    second.start()
    synchronize()
    first_is_done.set()
    second.join()
    assert seen == ["byteps.a failed"] * 2
    assert flight() is None, "no traceback keeps it"


def test_a_flight_is_over_when_its_names_are_free(core, monkeypatch) -> None:
    """Also while another thread settles it, which the names outlast by a moment."""
    default.init()
    session = default.current()
    flight = Flight(session, [Request("a", Operation.BARRIER, DataType.UINT8, (), 0, 0)])
    core.started[0].complete = True
    settled, goes_on, release = threading.Event(), threading.Event(), session.release

    def release_late(operation) -> None:
        settled.set()
        assert goes_on.wait(60)
        release(operation)

    monkeypatch.setattr(session, "release", release_late)
    waits = threading.Thread(target=flight.wait)
    waits.start()
    assert settled.wait(60)
    later = threading.Timer(0.2, goes_on.set)
    later.start()
    assert flight.is_over()
    handle = barrier_handle("a")
    waits.join()
    later.join()
    default.pending().synchronize(handle)


def test_an_abandoned_operation_is_let_go_when_it_is_over(core) -> None:
    default.init()
    pending = default.pending()
    handle = barrier_handle("a")
    pending.abandon(handle)
    pending.abandon(handle)
    assert pending.synchronize(handle) is None
    with pytest.raises(errors.DuplicateNameError):
        barrier_handle("a")
    core.started[0].complete = True
    barrier_handle("a")  # its name is free again


class Memory:
    """What an operation works on."""


class Interrupted(BaseException):
    """Of a signal handler."""


def single(name: str, memory: Memory) -> Handle[Any]:
    return start(Call(Operation.BARRIER, name), "cpu", DataType.UINT8, (), keep_alive=memory)


def several(name: str, memory: Memory, kind: type[Flight] = Flight) -> Handle[Any]:
    requests = [
        Request(f"{name}{place}", Operation.BARRIER, DataType.UINT8, (), 0, 0)
        for place in ("", ".1")
    ]
    flight = kind(default.current(), requests, keep_alive=memory)
    return default.pending().add(flight)


WAYS = {"single": single, "several": several, "chain": partial(several, kind=Chain)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("calls_before", [0, 1])
@pytest.mark.parametrize("is_started", [False, True])
def test_an_exception_around_the_start_loses_nothing(
    core, monkeypatch, way, calls_before, is_started
) -> None:
    """Of a signal handler, just before or after the library has started an operation."""
    default.init()
    session = default.current()
    native: Any = session._native
    native_start, calls = native.start, []

    def interrupted(*arguments: object, **more: object) -> int:
        calls.append(arguments[0])
        if len(calls) <= calls_before:
            return native_start(*arguments, **more)
        handle = native_start(*arguments, **more) if is_started else 0
        raise Interrupted(handle)

    memory = Memory()
    kept = weakref.ref(memory)
    with monkeypatch.context() as patch:
        patch.setattr(native, "start", interrupted)
        try:
            handles = [WAYS[way]("a", memory)]
        except Interrupted:
            handles = []
    del memory
    gc.collect()
    if core.started:
        assert kept() is not None
        assert [item.complete for item in core.started] == [False] * len(core.started)
    else:
        assert kept() is None
    for handle in handles:  # the second operation was not reached
        default.pending().abandon(handle)
    for _ in range(2):  # the others have made the call, of which the second part follows the first
        for number in list(native._operations):
            native.wait(number, 0)
    default.pending().synchronize(WAYS[way]("a", Memory()))
    gc.collect()
    assert kept() is None
    assert native._operations == {}
    assert not session._open._by_name
    assert not default.pending()._pending


def test_a_handle_that_nobody_has_any_more_is_abandoned(core) -> None:
    default.init()
    memory = Memory()
    kept = weakref.ref(memory)
    handle = single("a", memory)
    number = int(handle)
    del memory, handle
    assert not default.pending().poll(number)  # somebody has the number
    default.pending().synchronize(number)
    assert kept() is None
    memory = Memory()
    kept = weakref.ref(memory)
    single("a", memory)
    del memory
    assert kept() is not None
    core.started[1].complete = True
    single("b", Memory())
    assert kept() is None


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
