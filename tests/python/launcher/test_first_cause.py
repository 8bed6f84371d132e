"""Which worker the launcher names as the cause."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from byteps.cli.children import Child, ProcessSpec
from byteps.cli.first_cause import FirstCause
from byteps.cli.last_error import LastError

HEARD = b"byteps.common.errors.PeerLostError: worker 1 (process 7 on vm) was lost: an exception"


def ended(label: str, status: int, *lines: bytes, role: str = "worker") -> Child:
    spec = ProcessSpec(label, ["program"], {}, role)
    child = Child(spec, 0, SimpleNamespace(pid=1), -1, 0.0, status)  # type: ignore[arg-type]
    for line in lines:
        child.last_error.note(line)
    return child


def order(*children: Child) -> list[str]:
    first_cause = FirstCause()
    for child in children:
        first_cause.add(child, 0.0)
    return [child.spec.label for child in first_cause.in_order(killed_only=False)]


@pytest.mark.parametrize(
    ("line", "text", "is_heard"),
    [
        (b"ValueError: no data", "ValueError: no data", False),
        (b"[rank0]: [rank0]: my.own.TooBadError: [1] of 2", "my.own.TooBadError: [1] of 2", False),
        (b"KeyboardInterrupt", "KeyboardInterrupt", False),
        (b"[rank3]: " + HEARD, HEARD.decode().removeprefix("byteps.common.errors."), True),
        (b"byteps.common.errors.MismatchError: ranks", "MismatchError: ranks", False),
        (b"  File 'x.py', line 3, in ValueError", "", False),
        (b"the last ValueError: was mine", "", False),
        (b"", "", False),
    ],
)
def test_the_last_line_of_a_traceback(line: bytes, text: str, is_heard: bool) -> None:
    error = LastError()
    error.note(line)
    assert error.text == text
    assert error.is_heard == is_heard
    error.note(b"something else")
    assert error.text == text


def test_who_raised_comes_before_who_heard_of_it() -> None:
    first, cause = ended("worker 0", 1, HEARD), ended("worker 1", 1, b"ValueError: no data")
    assert order(first, cause) == ["worker 1", "worker 0"]
    assert order(cause, first) == ["worker 1", "worker 0"]
    assert order(first, ended("worker 2", 3))[0] == "worker 2"
    assert order(cause, ended("server 0", 1, role="server"))[0] == "worker 1"
    assert order(cause, ended("worker 2", -9))[0] == "worker 2"


def test_those_who_heard_wait_longer_for_the_cause() -> None:
    first_cause: Any = FirstCause()
    first_cause.add(ended("worker 0", 1, HEARD), 10.0)
    assert first_cause.judge_at == 15.0
    first_cause.add(ended("worker 2", 1, HEARD), 11.0)
    assert first_cause.judge_at == 15.0
    first_cause.add(ended("worker 1", 1, b"ValueError: no data"), 12.0)
    assert first_cause.judge_at == 12.5
    first_cause.clear()
    assert first_cause.judge_at is None
    assert not first_cause


def test_the_end_of_the_scheduler_waits_longer_for_the_cause() -> None:
    first_cause: Any = FirstCause()
    first_cause.add(ended("scheduler", 1, role="scheduler"), 10.0)
    assert first_cause.judge_at == 15.0
    first_cause.add(ended("worker 0", 1), 11.0)
    assert first_cause.judge_at == 15.0, "a worker that says nothing has heard of it, too"
    first_cause.add(ended("worker 1", 1, b"ValueError: no data"), 12.0)
    assert first_cause.judge_at == 12.5, "a worker that names an error may be the cause"


def test_a_worker_that_was_killed_needs_no_wait_for_the_scheduler() -> None:
    first_cause: Any = FirstCause()
    first_cause.add(ended("worker 1", -9), 10.0)
    first_cause.add(ended("scheduler", 1, role="scheduler"), 10.1)
    assert first_cause.judge_at == 10.5


def test_a_server_beside_a_worker_is_no_scheduler() -> None:
    first_cause: Any = FirstCause()
    first_cause.add(ended("worker 0", 1, HEARD), 10.0)
    assert first_cause.judge_at == 15.0
    first_cause.add(ended("server 0", 1, role="server"), 11.0)
    assert first_cause.judge_at == 11.5
