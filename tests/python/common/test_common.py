"""The numbers of the C interface, the errors, the default session."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_core import FakeSession, Opening

from byteps.common import environment, errors
from byteps.common.job import executables, launch_environment
from byteps.common.operations.call import Call, start
from byteps.common.request import Request
from byteps.common.session import default
from byteps.common.session.names import UNNAMED_CALLS_AT_ONCE, UnnamedCalls, usage_name
from byteps.common.timeline.timeline import Trace
from byteps.common.types import DataType, Operation

ROOT = Path(__file__).resolve().parents[3]
HEADER = (ROOT / "include/byteps/byteps.h").read_text()


def enumerators(enumeration: str) -> dict[str, int]:
    body = re.search(rf"typedef enum {enumeration} {{(.*?)}}", HEADER, re.S)
    assert body is not None
    pairs = re.findall(r"BYTEPS_(\w+) = (\d+)", body.group(1))
    return {name: int(value) for name, value in pairs}


def test_data_types_are_those_of_the_header() -> None:
    assert enumerators("byteps_dtype") == {item.name: item.value for item in DataType}


def test_operations_are_those_of_the_header() -> None:
    assert enumerators("byteps_op") == {item.name: item.value for item in Operation}


def test_every_code_of_the_header_has_its_own_exception() -> None:
    codes = {name: code for name, code in enumerators("byteps_code").items() if name != "OK"}
    kinds = {code: type(errors.error_from_code(code, "text")) for code in codes.values()}
    assert len(set(kinds.values())) == len(codes)
    for code, kind in kinds.items():
        assert kind.code == code
        assert issubclass(kind, RuntimeError)


def test_an_unknown_code_is_an_internal_error() -> None:
    assert isinstance(errors.error_from_code(99, "text"), errors.InternalError)


def test_getters_before_init_raise_the_documented_error() -> None:
    for getter in (default.rank, default.size, default.local_rank, default.local_size):
        with pytest.raises(ValueError, match=r"^BytePS has not been initialized; use bps\.init"):
            getter()


def test_init_twice_opens_once_and_init_after_shutdown_opens_again(core) -> None:
    default.init()
    default.init(lazy=False)
    assert core.opened == 1
    assert (default.rank(), default.size()) == (0, 2)
    default.shutdown()
    default.shutdown()
    with pytest.raises(ValueError, match="not been initialized"):
        default.rank()
    default.init()
    assert core.opened == 2


@contextlib.contextmanager
def on_signal(handler: Callable[[], object]) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, lambda *_: handler())
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("leaves", [False, True])
def test_a_signal_handler_may_shut_down_during_init(core, monkeypatch, leaves) -> None:
    handled = threading.Event()
    open_session = core.Session

    def interrupted(*arguments: object) -> object:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
        assert handled.wait(60)
        return open_session(*arguments)

    def handler() -> None:
        default.shutdown()  # would wait for ever for the thread that it runs on
        handled.set()
        if leaves:
            sys.exit(3)

    ending = pytest.raises(SystemExit) if leaves else contextlib.nullcontext()
    with monkeypatch.context() as patch, on_signal(handler), ending:
        patch.setattr(core, "Session", interrupted)
        default.init()
    assert default.is_initialized() is not leaves
    default.shutdown()
    default.init()
    assert default.is_initialized()


def test_an_exception_that_ends_init_ends_the_joining(core, monkeypatch) -> None:
    ended = threading.Event()

    def never_complete(settings: list[str], opening: Opening) -> object:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
        assert opening.broken_off.wait(60)
        ended.set()
        raise errors.ShutdownError("broken off")

    with monkeypatch.context() as patch, on_signal(lambda: sys.exit(3)):
        patch.setattr(core, "Session", never_complete)
        with pytest.raises(SystemExit):
            default.init()
    assert ended.is_set()
    assert not default.is_initialized()
    default.init()
    assert default.is_initialized()


def test_signal_handlers_during_shutdown(core, monkeypatch) -> None:
    default.init()
    seen = []

    def handler() -> None:
        default.shutdown()
        default.suspend()
        with pytest.raises(errors.InvalidArgumentError, match="signal handler"):
            default.init()
        seen.append(default.is_initialized())

    native = default.current()._native
    monkeypatch.setattr(native, "shutdown", lambda: signal.raise_signal(signal.SIGUSR1))
    with on_signal(handler):
        default.shutdown()
    assert seen == [False]
    default.init()
    assert core.opened == 2


def test_a_copy_of_the_process_leaves_no_job_and_writes_no_record(core, tmp_path) -> None:
    default.init()
    session = default.current()
    native: Any = session._native
    session.add_recorder(Trace(tmp_path, 0, 1, 1))
    default.pending().synchronize(start(Call(Operation.BARRIER, "a"), "cpu", DataType.UINT8, ()))
    session.before_leaving.append(lambda: os._exit(3))  # it would wait for what the parent began
    copy = os.fork()
    if copy == 0:
        wrong = True
        try:
            default.shutdown()
            wrong = default.is_initialized() or native._down or list(tmp_path.iterdir()) != []
        finally:
            os._exit(wrong)
    assert os.waitpid(copy, 0)[1] == 0
    session.before_leaving.clear()


@pytest.mark.parametrize("text", ["1", "TRUE", "yes", " on"])
def test_switches_that_are_on(text) -> None:
    assert environment.switch("ANY", {"ANY": text})


@pytest.mark.parametrize("text", ["", "0", "false", "No", "off "])
def test_switches_that_are_off(text) -> None:
    assert not environment.switch("ANY", {"ANY": text})
    assert not environment.switch("ANY", {})


def test_a_switch_that_is_neither_is_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="ANY is '2'"):
        environment.switch("ANY", {"ANY": "2"})


def test_automatic_names_count_calls_and_start_again_with_the_session(core) -> None:
    default.init()
    unnamed = default.current().unnamed
    assert [unnamed.name(scope) for scope in ("", "set1.", "")] == [
        "noname.1",
        "set1.noname.1",
        "noname.2",
    ]
    default.shutdown()
    default.init()
    assert default.current().unnamed.name("") == "noname.1"


def test_names_of_unnamed_calls_are_used_again_after_many_or_after_a_join() -> None:
    unnamed = UnnamedCalls()
    first = [unnamed.name("") for _ in range(UNNAMED_CALLS_AT_ONCE)]
    assert len(set(first)) == UNNAMED_CALLS_AT_ONCE
    assert [unnamed.name("") for _ in range(3)] == first[:3]
    assert unnamed.name("set1.") == "set1.noname.1"
    unnamed.begin_again()
    assert unnamed.name("") == "noname.1"
    assert unnamed.name("set1.") == "set1.noname.1"


def test_unnamed_calls_that_not_all_ranks_made_do_not_count() -> None:
    unnamed = UnnamedCalls()
    names = [unnamed.name("set1.") for _ in range(4)]
    unnamed.name("")
    for other in ("grad", "noname.7", "set2.noname.1"):
        unnamed.take_back(other)
    for name in names[1:]:
        unnamed.take_back(name)
    assert [unnamed.name("set1.") for _ in range(2)] == names[1:3]
    assert unnamed.name("") == "noname.2"
    unnamed.take_back(names[1])  # the one after it stands
    assert unnamed.name("set1.") == names[3]


def test_a_missing_program_says_where_it_was_expected(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("BYTEPS_PROGRAM_DIR", str(tmp_path))
    with pytest.raises(errors.UnavailableError, match=str(tmp_path)):
        executables.find_program("server")


def test_no_error_opening_reaches_the_caller_as_it_is(core, monkeypatch) -> None:
    def refuse(*_):
        raise errors.RefusedError("wrong secret")

    monkeypatch.setattr(core, "Session", refuse)
    with pytest.raises(errors.RefusedError, match="wrong secret"):
        default.init()
    assert not default.is_initialized()


def test_an_exception_that_nobody_catches_is_told_to_the_others(core, monkeypatch) -> None:
    seen = []
    monkeypatch.setattr(sys, "excepthook", lambda *arguments: seen.append(arguments))
    before = sys.excepthook
    default.init()
    sys.excepthook(RuntimeError, RuntimeError("no\ngood"), None)
    sys.excepthook(errors.PeerLostError, errors.PeerLostError("rank 1"), None)
    assert core.gave_up == ["an exception ended it: RuntimeError: no good"]
    assert len(seen) == 2
    default.shutdown()
    assert sys.excepthook is before


def test_what_the_others_know_is_not_told_to_them(core, monkeypatch) -> None:
    """Ctrl-C reaches all; torch's C++ passes errors of the job on, with the frames of a thread."""
    seen = []
    monkeypatch.setattr(sys, "excepthook", lambda *arguments: seen.append(arguments))
    default.init()
    passed_on = (
        "in a callback: PeerLostError: worker 1 was lost\n\nAt:\n  flight.py(51): _outcome\n"
    )
    sys.excepthook(RuntimeError, RuntimeError(passed_on), None)
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert core.gave_up == []
    kind, error, _ = seen[0]
    assert kind is RuntimeError
    assert str(error) == "in a callback: PeerLostError: worker 1 was lost"
    sys.excepthook(RuntimeError, RuntimeError("my own PeerLostError"), None)
    assert core.gave_up == ["an exception ended it: RuntimeError: my own PeerLostError"]


class WithoutTextError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("cannot open f\udcff"), "RuntimeError: cannot open f\\udcff"),
        (WithoutTextError(), "WithoutTextError, which has no text"),
    ],
)
def test_an_exception_whose_text_is_none_is_told_too(core, monkeypatch, error, told) -> None:
    seen = []
    monkeypatch.setattr(sys, "excepthook", lambda *arguments: seen.append(arguments))
    default.init()
    sys.excepthook(type(error), error, None)
    assert seen == [(type(error), error, None)]
    assert core.gave_up == [f"an exception ended it: {told}"]


def test_the_users_hook_is_called_whatever_becomes_of_the_telling(core, monkeypatch) -> None:
    def fail(session, why):
        raise OSError("no")

    seen = []
    monkeypatch.setattr(sys, "excepthook", lambda *arguments: seen.append(arguments))
    default.init()
    monkeypatch.setattr(type(default.current()), "give_up", fail)
    sys.excepthook(RuntimeError, RuntimeError("bad"), None)
    assert len(seen) == 1


def test_a_session_that_was_left_goes_when_the_next_one_is_there(core) -> None:
    """Its threads and buffers go with it: Python need not look for circles."""
    gc.disable()
    try:
        default.init()
        left = weakref.ref(default.current())
        default.shutdown()
        default.init()
        assert left() is None
    finally:
        gc.enable()


def test_a_timeline_has_every_operation(core, tmp_path) -> None:
    default.init()
    session = default.current()
    path = tmp_path / "timeline.json"
    default.start_timeline(str(path), mark_cycles=True)
    handles = [
        session.start(Request(name, Operation.BARRIER, DataType.UINT8, (), 0, 0))
        for name in ("a", "b", "a again")
    ]
    for handle in handles:
        session.wait(handle)
        session.release(handle)
    default.stop_timeline()
    default.stop_timeline()
    events = json.loads(path.read_text())
    rows = {e["pid"]: e["args"]["name"] for e in events[1:] if e.get("name") == "process_name"}
    assert list(rows.values()) == ["a", "b", "a again"]
    begins = [e for e in events if e.get("ph") == "B" and e["name"] == "BARRIER"]
    assert [rows[e["pid"]] for e in begins] == ["a", "b", "a again"]


def test_machines_are_those_of_the_library(core) -> None:
    default.init()
    session = default.current()
    for machine, sizes, is_equal in (
        (1, [2, 2], True),
        (0, [2], True),
        (1, [2, 1], False),
        (2, [1, 1, 1], True),
    ):
        session.machine, session.machine_sizes = machine, sizes
        found = (default.cross_rank(), default.cross_size(), default.is_homogeneous())
        assert found == (machine, len(sizes), is_equal)


def test_same_bits_are_told_with_the_reason(core) -> None:
    default.init()
    for depends_on, floats, halves in ((0, True, True), (1, True, False), (2, False, False)):
        core.sums = (depends_on, "so it is")
        found = default.same_bits()
        assert (found.floats, found.halves, found.reason) == (floats, halves, "so it is")
        assert bool(found) == halves


@pytest.mark.parametrize(
    ("root", "towards_root", "announced"),
    [
        ("node7", "10.0.0.5", "10.0.0.5"),
        ("node7", "127.0.0.1", "192.168.1.5"),  # /etc/hosts: 127.0.1.1 node7
        ("node7", "::1", "192.168.1.5"),
        ("localhost", "127.0.0.1", "127.0.0.1"),
        ("127.0.1.1", "127.0.0.1", "127.0.0.1"),
    ],
)
def test_loopback_is_announced_only_if_the_root_says_so(
    monkeypatch, root: str, towards_root: str, announced: str
) -> None:
    routes = {launch_environment.OUTSIDE: "192.168.1.5", root: towards_root}
    monkeypatch.setattr(launch_environment, "source_towards", routes.__getitem__)
    monkeypatch.delenv("DMLC_NODE_HOST", raising=False)
    monkeypatch.setenv("DMLC_PS_ROOT_URI", root)
    assert launch_environment.own_address(on_one_machine=False) == announced
    assert launch_environment.own_address(on_one_machine=True) == "127.0.0.1"


def test_resume_declares_the_names_again_in_their_order(core, monkeypatch) -> None:
    for name in ("DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "BYTEPS_GLOBAL_RANK"):
        monkeypatch.setenv(name, "7")
    default.init()
    for name in ("b", "a", "b"):
        default.declare(name)
    default.declare("a", atomic=True)
    default.suspend()
    core.declared.clear()
    default.resume(2, 1, 0)
    assert default.current().atomic == {"a"}
    assert core.declared == ["byteps.b", "byteps.a"]
    assert os.environ["DMLC_NUM_WORKER"] == "2"
    assert os.environ["DMLC_NUM_SERVER"] == "1"
    assert os.environ["BYTEPS_GLOBAL_RANK"] == "0"
    default.shutdown()
    core.declared.clear()
    default.init()
    assert core.declared == []


def test_the_list_of_all_ranks_may_be_given(core) -> None:
    default.init([0, 1])
    default.shutdown()
    default.init(comm=[0, 1], process_sets="dynamic")
    default.shutdown()
    with pytest.raises(errors.InvalidArgumentError, match="process_sets"):
        default.init([0])
    assert not default.is_initialized()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "slow",
            "for tensor 'byteps.slow' (sum of float32[0]; device cpu). Another rank is late, ",
        ),
        (usage_name("optimizer"), "at the end of a step, to ask which ranks have gradients "),
    ],
)
def test_a_long_wait_says_for_what(core, monkeypatch, caplog, name, words) -> None:
    default.init()
    session = default.current()
    request = Request(name, Operation.SUM, DataType.FLOAT32, (0,), 0, 0, detail="device cpu")
    handle = session.start(request)
    timeouts: list[int] = []
    native_wait = session._native.wait

    def wait(handle: int, timeout_ms: int) -> None:
        if timeout_ms >= 60_000:
            timeouts.append(timeout_ms)
        if len(timeouts) < 3:
            raise errors.DeadlineError("the wait timed out")
        native_wait(handle, timeout_ms)

    monkeypatch.setattr(session._native, "wait", wait)
    session.wait(handle)
    assert timeouts == [60_000, 60_000, 120_000]
    assert len(caplog.messages) == 2
    assert caplog.messages[1].startswith(f"rank 0 has waited 120 s {words}")


@pytest.mark.parametrize("rank", [0, 1])
def test_variables_of_horovod_are_named_once(core, monkeypatch, caplog, rank) -> None:
    monkeypatch.setattr(FakeSession, "rank", rank)
    default.init()
    default.shutdown()
    assert caplog.messages == []
    monkeypatch.setattr(default, "_process", default._Process())
    for name in ("HOROVOD_CYCLE_TIME", "HOROVOD_FUSION_THRESHOLD"):
        monkeypatch.setenv(name, "1")
    for _ in range(2):
        default.init()
        default.shutdown()
    assert len(caplog.messages) == (1 if rank == 0 else 0)
    for message in caplog.messages:
        assert "here: HOROVOD_CYCLE_TIME, HOROVOD_FUSION_THRESHOLD. 'bps docs migrating'" in message


def test_a_text_that_is_too_long_is_told_from_others(core) -> None:
    default.init()

    def detail_of(text: str) -> str:
        session = default.current()
        request = Request("long", Operation.SUM, DataType.FLOAT32, (0,), 0, 0, detail=text)
        session.release(session.start(request))
        return core.started[-1].detail

    text = ", ".join(f"parameter{i}" for i in range(300))
    short = detail_of(text)
    assert len(short.encode()) <= 1024
    assert short.startswith("parameter0, ")
    assert short.endswith(", parameter299")
    assert detail_of(text.replace("150", "\u00fc")) != short
    assert len(detail_of("\u00fc" * 600).encode()) <= 1024
    assert detail_of("\u00fc") == "\\xfc"


def test_shared_memory_lives_as_long_as_a_buffer_of_it(core) -> None:
    default.init()
    session = default.current()
    memory = session.shared_memory(16)
    assert (memory.size_bytes, memory.is_shared) == (16, True)
    view = memoryview(memory.buffer()).cast("B")
    address = memory.address
    del memory
    view[3] = 5
    assert core.memory[address][3] == 5
    default.shutdown()
    assert address in core.memory
    view.release()
    del view
    assert core.memory == {}
