"""Waits: when the process says that it is stuck in one, and how one gives up."""

from __future__ import annotations

import _thread
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from byteps.common import errors
from byteps.common.request import Request
from byteps.common.session import default
from byteps.common.session import session as session_module
from byteps.common.session.open_operations import OpenOperation
from byteps.common.types import DataType, Operation


@pytest.fixture
def slow(core, monkeypatch) -> OpenOperation:
    """An operation that takes longer than a wait looks on. Test runners may have threads."""
    monkeypatch.setattr(session_module, "_STUCK_BESIDE_OTHERS_AFTER_MS", 500)
    default.init()
    session = default.current()
    native_wait = session._native.wait

    def wait(handle: int, timeout_ms: int) -> None:
        if timeout_ms < 1000:
            raise errors.DeadlineError("the wait timed out")
        native_wait(handle, timeout_ms)

    monkeypatch.setattr(session._native, "wait", wait)
    return session.start(small("slow"))


def small(name: str) -> Request:
    return Request(name, Operation.SUM, DataType.FLOAT32, (0,), 0, 0)


@contextlib.contextmanager
def thread_that(does: Callable[[], object], start: object = threading.Thread) -> Iterator[None]:
    """Have a thread that has done this and lives; it has ended when the block is left."""
    done, begun = threading.Event(), threading.Event()
    idents = []

    def run() -> None:
        idents.append(threading.get_ident())
        does()
        begun.set()
        done.wait()

    if start is None:
        _thread.start_new_thread(run, ())  # `threading` does not know of it
        join = partial(forget_thread, idents)
    else:
        thread = start(target=run)
        thread.start()
        join = thread.join
    begun.wait()
    try:
        yield
    finally:
        done.set()
        join()


def forget_thread(idents: list[int]) -> None:
    """Wait for the end of a thread that `threading` did not start, and take it off its list."""
    while idents[0] in sys._current_frames():
        time.sleep(0.001)
    # On the list once it has asked who it is; from Python 3.13 on only as long as it lives.
    vars(threading)["_active"].pop(idents[0], None)


def test_the_main_thread_is_stuck_while_it_waits(core, slow) -> None:
    default.current().wait(slow)
    assert core.stuck == ["byteps.slow", None]


def test_who_is_interrupted_is_not_stuck_any_more(core, slow, monkeypatch) -> None:
    session = default.current()

    def interrupted(handle: int, timeout_ms: int) -> None:
        raise errors.DeadlineError("no") if timeout_ms < 1000 else KeyboardInterrupt

    monkeypatch.setattr(session._native, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.wait(slow)
    assert core.stuck == ["byteps.slow", None]


@pytest.mark.parametrize("start", [threading.Thread, None])
def test_beside_a_thread_that_starts_nothing_it_is_stuck_later(core, slow, start) -> None:
    waits = []
    session = default.current()
    with thread_that(lambda: None, start), pytest.MonkeyPatch.context() as patch:
        native_wait = session._native.wait
        patch.setattr(session._native, "wait", lambda h, ms: waits.append(ms) or native_wait(h, ms))
        session.wait(slow)
    assert waits[1] == session_module._STUCK_BESIDE_OTHERS_AFTER_MS
    assert core.stuck == ["byteps.slow", None]


@pytest.mark.parametrize("start", [threading.Thread, None])
def test_beside_a_thread_that_starts_operations_it_is_not_stuck(core, slow, start) -> None:
    session = default.current()
    with thread_that(lambda: session.start(small("other")), start):
        session.wait(slow)
    assert core.stuck == []


def test_beside_a_thread_of_this_package_it_is_not_stuck(core, slow) -> None:
    with thread_that(lambda: None, partial(threading.Thread, name="byteps-group")):
        default.current().wait(slow)
    assert core.stuck == []


def test_an_operation_of_another_thread_takes_it_back(core, slow, monkeypatch) -> None:
    session = default.current()
    native_wait = session._native.wait

    def wait(handle: int, timeout_ms: int) -> None:
        if timeout_ms > 1000:
            with thread_that(lambda: session.start(small("first"))):
                assert core.stuck == ["byteps.slow", None]
        native_wait(handle, timeout_ms)

    monkeypatch.setattr(session._native, "wait", wait)
    session.wait(slow)
    assert core.stuck == ["byteps.slow", None, None]


def test_a_wait_of_another_thread_is_not_one_of_the_process(core, slow) -> None:
    waiter = threading.Thread(target=default.current().wait, args=(slow,))
    waiter.start()
    waiter.join()
    assert core.stuck == []


def test_an_operation_that_ends_in_a_deadline_is_not_waited_for_again(core) -> None:
    default.init()
    core.failing["byteps.late"] = errors.DeadlineError.code
    session = default.current()
    handle = session.start(small("late"))
    with pytest.raises(errors.DeadlineError, match="late failed"):
        session.wait(handle)


def test_an_operation_that_ends_while_a_wait_gives_up_has_ended_well(core, monkeypatch) -> None:
    default.init()
    session = default.current()
    native_wait = session._native.wait

    def wait(handle: int, timeout_ms: int) -> None:
        native_wait(handle, timeout_ms)
        if timeout_ms > 0:
            raise errors.DeadlineError("the wait timed out a moment before")

    monkeypatch.setattr(session._native, "wait", wait)
    session.wait(session.start(small("just in time")))
