"""Which worker the launcher names as the cause."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from byteps.cli.children import Child, ProcessSpec
from byteps.cli.first_cause import FirstCause
from byteps.cli.last_error import LastError, LastWord, SaidOnce, ServiceError, is_of_a_loss

HEARD = b"byteps.common.errors.PeerLostError: worker 1 (process 7 on vm) was lost: an exception"
OWN = b"byteps.common.errors."
PASSED_ON = b"MismatchError: worker 1 (process 7 on vm) was lost: an exception ended it: Mismatch"
STARVED = b"DeadlineError: the job did not start: 1/2 workers; missing worker 1; waited 12 s"
CUT_OFF = b"UnavailableError: cannot reach the scheduler at a:9000 (Connection timed out)"


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
        (OWN + PASSED_ON, PASSED_ON.decode(), True),
        (OWN + STARVED, STARVED.decode(), True),
        (OWN + CUT_OFF, CUT_OFF.decode(), False),
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


def test_a_worker_behind_a_firewall_comes_before_the_one_that_waited_for_it() -> None:
    waits, cut_off = ended("worker 0", 1, OWN + STARVED), ended("worker 1", 1, OWN + CUT_OFF)
    first_cause = FirstCause()
    first_cause.add(ended("scheduler", 1, role="scheduler"), 10.0)
    first_cause.add(waits, 10.1)
    assert first_cause.judge_at == 15.0
    first_cause.add(cut_off, 11.5)
    assert first_cause.judge_at == 12.0
    order = [child.spec.label for child in first_cause.in_order(killed_only=False)]
    assert order == ["worker 1", "worker 0", "scheduler"]


@pytest.mark.parametrize(
    ("reason", "until"),
    [
        (b"it ended with sys.exit(9)", 40.0),
        (b"an exception ended it: ValueError: no data", 40.0),
        (b"a C++ exception ended its session", 40.0),
        (b"it was silent for 10 s", 15.0),
    ],
)
def test_who_has_said_that_it_ends_is_waited_for(reason: bytes, until: float) -> None:
    lost = b"worker 1 (process 7 on vm) was lost: " + reason
    scheduler = ended("scheduler", 1, role="scheduler")
    scheduler.last_error = ServiceError()
    scheduler.last_error.note(b"bps-scheduler: " + lost)
    heard = ended("worker 0", 1, OWN + b"PeerLostError: " + lost)
    for children in ([scheduler, heard], [heard]):
        first_cause = FirstCause()
        for child in children:
            first_cause.add(child, 10.0)
        assert first_cause.judge_at == until
        first_cause.add(ended("worker 1", 9), 12.0)
        assert first_cause.judge_at == 12.5


@pytest.mark.parametrize(
    ("lines", "reason", "is_heard"),
    [
        ((b"step 3", b"fit: ranks disagree", b""), "its last line: fit: ranks disagree", False),
        (
            (b"fit: bad data", b"[2026-11-28 18:36:31.1: W worker 0] slow"),
            "its last line: fit: bad data",
            False,
        ),
        ((b"fit: worker 1 (process 7 on vm) was lost: killed",), "", True),
        ((b"worker 1 has left the job; operations",), "", True),
        ((b"ValueError: no data", b"fit: worker 1 was lost: killed"), "ValueError: no data", False),
        ((), "", False),
    ],
)
def test_a_program_of_c_says_in_its_last_line_why_it_ends(lines, reason, is_heard) -> None:
    child = ended("worker 0", 1, *lines)
    assert child.last_error.is_heard == is_heard
    if reason or not lines:
        told = f" ({reason})" if reason else ""
        assert child.how_and_why == f"worker 0 ended with exit code 1{told}"
    killed = ended("worker 0", -9, b"step 3")
    assert killed.how_and_why == "worker 0 was killed by signal 9 (SIGKILL)"


def test_a_program_of_c_on_another_host_has_heard_of_the_end_too() -> None:
    for said, is_heard in ((b"worker 1 was lost: killed", True), (b"bad data", False)):
        word = LastWord()
        word.note(
            b"[bps on b] b worker 2 ended with exit code 1 (its last line: fit: "
            + said
            + b"); ending the job"
        )
        assert word.text
        assert word.is_heard == is_heard


def test_the_scheduler_and_servers_say_why_they_end() -> None:
    error = ServiceError()
    error.note(b"[2026-11-28 18:36:31: W scheduler] waiting: 1/2 workers")
    assert error.text == ""
    lost = b"worker 1 (process 7 on vm) was lost: bad data; the job needs all its workers"
    error.note(b"bps-scheduler: " + lost)
    assert error.text == lost.decode()
    assert is_of_a_loss(b"bps-server: " + lost)
    assert is_of_a_loss(b"[2026-11-28 18:36:31.1: E scheduler] the job is over: " + lost)
    for line in (
        b"bps-scheduler: the job did not start: 1/2 workers",
        b"[2026-11-28 18:36:31.1: W scheduler] server 1 was lost: closed; the job goes on",
        b"the job is over: " + lost,
    ):
        assert not is_of_a_loss(line)


def test_what_two_connections_to_a_host_say_is_told_once() -> None:
    said = SaidOnce()
    workers, servers = said.by(0), said.by(1)
    refused = b"ssh: connect to host b port 22: Connection refused"
    version = b"[bps on b] byteps is 0.2.0 here and 0.1.0 where bps run is."
    for line in (refused, version):
        assert not workers(line)
        assert servers(line)
        assert not workers(line), "its own words again"
    assert not workers(b"[b worker 0] step 1")
    assert not servers(b"[b worker 0] step 1"), "of processes"


def test_ssh_that_was_connected_has_lost_its_connection() -> None:
    spec = ProcessSpec("host b", ["ssh"], {}, task="{}")
    child = Child(spec, 0, SimpleNamespace(pid=1), -1, 0.0, 255)  # type: ignore[arg-type]
    assert "ssh could not connect, or lost its connection (it must work" in child.how_it_ended
    child._lived_s = 3600.0
    assert child.how_it_ended.startswith("host b: ssh lost its connection: b has stopped or")


def test_a_debugger_without_input_is_explained() -> None:
    spec = ProcessSpec("worker 1", ["python"], {}, rank=1)
    child = Child(spec, 0, SimpleNamespace(pid=1), -1, 0.0, 1)  # type: ignore[arg-type]
    child.last_error.note(b"bdb.BdbQuit")
    assert child.how_and_why == (
        "worker 1 ended with exit code 1 (bdb.BdbQuit: only rank 0 has input, so breakpoint() "
        "works there)"
    )


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
