"""Operations without a framework, against a native module of pure Python."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from byteps.common.errors import (
    InvalidArgumentError,
    MismatchError,
    PeerLostError,
    RefusedError,
    ReplicasDifferError,
)
from byteps.common.gradients.updater import Update, Updater
from byteps.common.operations import byte_rows, objects, splits
from byteps.common.operations.byte_rows import address_of
from byteps.common.operations.call import Call, start
from byteps.common.operations.groups import (
    Buffer,
    describe_tensors,
    places_by_kind,
    start_group,
)
from byteps.common.operations.part_frames import heads, parts_of
from byteps.common.operations.replicas import compare, digest
from byteps.common.request import Request
from byteps.common.session import default
from byteps.common.session.flight import Flight
from byteps.common.types import DataType, Operation


@pytest.fixture(autouse=True)
def _initialized(core) -> None:
    default.init()


def test_a_sum_of_memory(core) -> None:
    memory = bytearray([1, 2, 3])
    place = address_of(memory)
    call = Call(Operation.SUM, "memory", prescale=0.5, detail="three")
    handle = start(call, "cpu", DataType.UINT8, (3,), place, place, lambda _: bytes(memory))
    assert not default.pending().poll(handle)
    assert default.pending().synchronize(handle) == bytes([2, 4, 6])
    assert handle.members == [0, 1]
    assert core.started[0].detail == "device cpu; prescale_factor 0.5; three"
    assert default.pending().synchronize(handle) is None


def test_calls_that_make_no_sense() -> None:
    for name, priority, process_set in ((1, 0, None), ("a", 1.5, None), ("a", 0, "all")):
        with pytest.raises(InvalidArgumentError):
            Call(Operation.SUM, name, priority=priority, process_set=process_set)


def test_rows_of_bytes_and_objects(core) -> None:
    rows = byte_rows.gather(Call(Operation.ALLGATHER, "rows"), b"ab")
    assert (bytes(rows.joined), rows.counts, rows.ranks) == (b"abab", [2, 2], [0, 1])
    assert rows.of_ranks() == [b"ab", b"ab"]
    assert objects.allgather_object({"a": 1}) == [{"a": 1}] * 2
    assert core.names()[-1] == "byteps.Objects.object"


def test_objects_are_refused_before_anything_begins_where_strangers_can_join(core) -> None:
    core.takes_objects = False
    default.shutdown()
    default.init()
    for function, rest in (
        (objects.broadcast_object, (0,)),
        (objects.broadcast_object, (1,)),
        (objects.allgather_object, ()),
    ):
        with pytest.raises(RefusedError, match=rf"{function.__name__} runs code .* Set BYTEPS_"):
            function({"a": 1}, *rest)
    assert core.names() == []


@pytest.mark.parametrize(
    ("limit_ms", "end"),
    [
        (1_800_000, "ends with an error that names the missing ranks, after 1800 s (BYTEPS_O"),
        (0, "end such a wait with an error that names the missing ranks, set BYTEPS_O"),
    ],
)
def test_a_long_wait_says_when_it_will_end(core, caplog, limit_ms, end) -> None:
    core.operation_limit_ms = limit_ms
    default.shutdown()
    default.init()
    session = default.current()
    handle = session.start(Request("all here", Operation.BARRIER, DataType.UINT8, (), 0, 0))
    session._tell_of_wait(handle, 60)
    assert "rank 0 has waited 60 s for tensor" in caplog.text
    assert end in caplog.text


def test_a_limit_of_its_own_reaches_the_library(core) -> None:
    request = Request("a", Operation.BARRIER, DataType.UINT8, (), 0, 0, limit_s=90.5)
    default.current().start(request)
    default.current().start(Request("b", Operation.BARRIER, DataType.UINT8, (), 0, 0))
    assert [one.limit_ms for one in core.started] == [90500, 0]


def test_bytes_of_a_rank_that_was_lost_are_none() -> None:
    rows = byte_rows.ByteRows(bytearray(b"abc"), [1, 0, 2], [0, 2])
    assert rows.of_ranks() == [b"a", b"bc"]


def test_parts_of_several_ranks() -> None:
    sent = [heads([1, 0]) + b"xy", heads([2, 1]) + b"uvwz" + b"!"]
    received = memoryview(b"".join(sent))
    first, second = parts_of(received, [2, 1])
    assert [bytes(received[p.begin : p.end]) for p in first] == [b"xy", b"uvwz"]
    assert [(p.rows, bytes(received[p.begin : p.end])) for p in second] == [(0, b""), (1, b"!")]


class Bytes:
    """A pack of bytes."""

    def __init__(self, values: bytes) -> None:
        self.memory = bytearray(values)

    def call(self, call: Call) -> Call:
        return call

    def buffer(self) -> Buffer:
        address = address_of(self.memory)
        return Buffer(DataType.UINT8, (len(self.memory),), address, address)


def test_a_group_is_one_operation_to_its_user(core) -> None:
    packs = [Bytes(b"\1"), Bytes(b"\2\3")]
    call = Call(Operation.SUM, "group")
    handle = start_group(packs, call, "cpu", lambda _: [bytes(pack.memory) for pack in packs])
    assert default.pending().synchronize(handle) == [b"\2", b"\4\6"]
    assert core.names() == ["byteps.group", "byteps.group.1"]


def test_the_rest_of_a_group_is_not_started_when_the_first_fails(core) -> None:
    core.failing["byteps.group"] = MismatchError.code
    packs = [Bytes(b"\1"), Bytes(b"\2")]
    handle = start_group(packs, Call(Operation.SUM, "group"), "cpu", lambda _: None)
    with pytest.raises(MismatchError):
        default.pending().synchronize(handle)
    assert core.names() == ["byteps.group"]
    assert handle.members == []
    assert not handle.any_layout


def test_an_operation_that_has_failed_keeps_nothing(core) -> None:
    handle = start(Call(Operation.BARRIER, "fails"), "cpu", DataType.UINT8, ())
    core.failing[core.started[0].name] = PeerLostError.code
    flight = weakref.ref(default.pending()._pending[handle])
    has_failed = False
    gc.disable()
    try:
        try:
            default.pending().synchronize(handle)
        except PeerLostError:  # and not pytest.raises, which keeps it
            has_failed = True
        assert has_failed
        assert flight() is None
    finally:
        gc.enable()


def test_an_error_of_what_makes_the_result_is_kept_for_all_who_wait(core) -> None:
    def fail(_: Flight) -> None:
        raise KeyError("made here")

    request_call = Call(Operation.BARRIER, "fails")
    handle = start(request_call, "cpu", DataType.UINT8, (), finish=fail)
    flight = default.pending()._pending[handle]
    for _ in range(2):
        with pytest.raises(KeyError):
            flight.wait()
    with pytest.raises(KeyError):
        default.pending().synchronize(handle)
    with pytest.raises(ValueError, match="cleared"):
        default.pending().poll(handle)


def test_kinds_and_words() -> None:
    assert places_by_kind("abab") == {"a": [0, 2], "b": [1, 3]}
    assert describe_tensors([("int8", (2,)), ("bool", ())]) == "2 tensors: int8[2], bool[]"


def test_rows_are_dealt_to_all() -> None:
    assert [splits.rows_of(place, 3, 7) for place in range(3)] == [3, 2, 2]
    assert splits.checked_splits(None, 2, 4) is None
    assert splits.checked_splits([1, 3], 2, 4) == [1, 3]
    for wrong in ([1, 2], [5, -1], [4]):
        with pytest.raises(InvalidArgumentError, match="splits is"):
            splits.checked_splits(wrong, 2, 4)
    with pytest.raises(InvalidArgumentError, match="alike"):
        splits.checked_splits(None, 2, 3)


def test_replicas_are_compared_by_type_and_bytes(core, monkeypatch) -> None:
    memory = bytearray(b"weights!")
    digests = [digest(kind, address_of(memory), 8) for kind in ("float32", "float64")]
    assert digests[0] != digests[1]
    compare([("w", (2,), digests[0])], "model")
    other = byte_rows.ByteRows(bytearray(b"".join(digests)), [8, 8], [0, 1])
    monkeypatch.setattr("byteps.common.operations.replicas.gather", lambda call, own: other)
    with pytest.raises(ReplicasDifferError, match="rank 1 and rank 0 have different values of 'w'"):
        compare([("w", (2,), digests[0])], "model")


def test_updates_are_made_in_order_and_an_error_is_told_once() -> None:
    updater, done, gate = Updater("byteps-test"), [], threading.Event()

    def fail() -> None:
        raise KeyError("update")

    updater.submit([Update("a", gate.wait), Update("b", lambda: done.append("b"))])
    assert updater.is_pending("a")
    gate.set()
    updater.wait(["b"])
    assert done == ["b"]
    updater.submit([Update("c", fail)])
    with pytest.raises(KeyError):
        updater.wait()
    updater.wait()
    updater.close()
