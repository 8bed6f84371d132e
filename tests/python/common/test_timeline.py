"""Records of operations: the files, and one file of several ranks by one clock."""

from __future__ import annotations

import contextlib
import errno
import json
import sys
from pathlib import Path

import interruptions
import pytest

from byteps.common import environment
from byteps.common.errors import InvalidArgumentError
from byteps.common.request import Request
from byteps.common.session import default
from byteps.common.timeline import timeline as timeline_module
from byteps.common.timeline.timeline import Entry, Recorder, Timeline, Trace, file_of_rank
from byteps.common.timeline.timeline_merge import merge
from byteps.common.types import DataType, Operation


def request(name: str, operation: Operation = Operation.SUM) -> Request:
    return Request(name, operation, DataType.FLOAT32, (3, 4), 0, 0)


def events_of(path) -> list[dict]:
    return json.loads(path.read_text())


def test_a_file_that_cannot_be_written_is_named(tmp_path) -> None:
    path = tmp_path / "no folder" / "t.json"
    with pytest.raises(InvalidArgumentError, match=r"no folder/t.json cannot be written: No such"):
        Timeline(path, 0)


def test_the_file_is_whole_after_every_event(tmp_path) -> None:
    path = tmp_path / "t.json"
    timeline = Timeline(path, 2)
    assert events_of(path)[0]["name"] == "process_name"
    assert events_of(path)[0]["args"]["start_time_since_epoch_in_micros"] > 1e15
    timeline.start(7, request("w"))
    assert events_of(path)[-2:][0]["name"] == "NEGOTIATE_ALLREDUCE"
    timeline.end(7, 0, 0)
    timeline.close()
    timeline.close()
    events = events_of(path)
    shapes = [(e["ph"], e.get("name")) for e in events if e["pid"] == 1 and e["ph"] != "M"]
    assert shapes == [
        ("B", "NEGOTIATE_ALLREDUCE"), ("X", "2"), ("E", None), ("B", "ALLREDUCE"), ("E", None),
    ]  # fmt: skip
    assert events[-1]["args"] == {"dtype": "float32", "shape": "[3, 4]"}
    assert all(isinstance(e["ts"], int) for e in events if e["ph"] != "M")
    assert not any("tid" in event for event in events)


@pytest.mark.parametrize("cause", ["full", "short", "limit"])
def test_a_timeline_without_room_ends_as_valid_json_and_says_so(
    cause, tmp_path, monkeypatch, caplog
) -> None:
    timeline = Timeline(tmp_path / "t.json", 3)
    timeline.start(1, request("w"))
    before = len(json.loads((tmp_path / "t.json").read_text()))
    opened = timeline._file
    assert opened is not None
    file = opened

    class Full:
        """The file on a disk that is full, until its end has been written again."""

        name = file.name

        def __getattr__(self, name: str):
            return getattr(file, name)

        def write(self, data: bytes) -> int:
            if data == b"\n]":
                return file.write(data)
            if cause == "full":
                raise OSError(errno.ENOSPC, "No space left on device")
            return file.write(data[:10])

    if cause == "limit":
        monkeypatch.setattr(timeline_module, "_BYTES_MAX", 600)
    else:
        timeline._file = Full()  # type: ignore[assignment]
    for handle in range(2, 20):
        timeline.start(handle, request("w"))
    assert timeline.is_done()
    events = json.loads((tmp_path / "t.json").read_text())
    assert len(events) >= before
    assert (len(events) > before) == (cause == "limit")
    (warning,) = caplog.records
    assert "t.json of rank 3 ends here: " in warning.getMessage()
    why = {"full": "No space left", "short": "the disk is full", "limit": "the most that"}
    assert why[cause] in warning.getMessage()
    timeline.close()


def test_the_times_of_the_library_count(tmp_path) -> None:
    timeline = Timeline(tmp_path / "t.json")
    timeline.start(1, request("w"))
    at = timeline._begun_ns + 10**12
    timeline.end(1, at, at + 5_000_000)
    *_, begin, end = events_of(tmp_path / "t.json")
    assert end["ts"] - begin["ts"] == 5000


def written(tmp_path, rank: int, clock_us: int, times: list[tuple[str, int, int]]) -> list[dict]:
    """Write the timeline of a rank whose clock is ahead; times are the true ones."""
    timeline = Timeline(tmp_path / f"{rank}.json", rank)
    for handle, (name, begun, ended) in enumerate(times):
        timeline._now_us = lambda at=begun: at  # type: ignore
        timeline.start(handle, request(name))
        base = timeline._begun_ns
        timeline.end(handle, base + begun * 1000, base + ended * 1000)
    timeline.close()
    events = events_of(tmp_path / f"{rank}.json")
    events[0]["args"]["start_time_since_epoch_in_micros"] = clock_us
    return events


def test_ranks_are_merged_by_one_clock(tmp_path) -> None:
    first = [("w", 100, 500), ("v", 600, 900), ("w", 1000, 1500)]
    # The second rank comes 200 us late to each, and its clock is an hour ahead.
    second = [("w", 300, 500), ("v", 800, 900), ("w", 1200, 1500)]
    hour = 3_600_000_000
    merged = merge(
        [written(tmp_path, 0, 10**15, first), written(tmp_path, 1, 10**15 + hour, second)]
    )
    waits = [e for e in merged if e.get("name") == "NEGOTIATE_ALLREDUCE"]
    assert [e["dur"] for e in waits] == [200, 200, 200]
    sums = [e for e in merged if e.get("name") == "ALLREDUCE"]
    assert [e["dur"] for e in sums] == [200, 100, 300]
    rows = {e["args"]["name"] for e in merged if e.get("name") == "thread_name"}
    assert rows == {"rank 0", "rank 1"}
    waited = [e["args"]["waited_for_others_us"] for e in merged if e["pid"] == 0 and e["ph"] == "X"]
    assert sorted(waited) == [0, 0, 0, 200, 200, 200]
    for event in merged:  # what the viewers need
        assert event["ph"] in "MXi"
        assert isinstance(event["pid"], int)
        assert event["ph"] == "M" or event["ts"] >= 0
        assert event["ph"] != "X" or event["dur"] >= 0


def test_no_two_operations_overlap_in_a_row(tmp_path) -> None:
    """Perfetto drops the second one."""
    # Three are on their way at a time, and "w" seems to begin before its last use has ended.
    times = [("w", 100, 500), ("v", 200, 600), ("u", 550, 700), ("w", 490, 900)]
    merged = merge([written(tmp_path, rank, 10**15, times) for rank in (0, 1)])
    rows: dict[tuple[int, int], int] = {}
    for event in merged:
        if event["ph"] == "X":
            row = event["pid"], event["tid"]
            assert event["ts"] >= rows.get(row, 0), event
            rows[row] = event["ts"] + event["dur"]
    names = [e["args"]["name"] for e in merged if e.get("name") == "thread_name"]
    assert names == [f"rank {rank}{line}" for rank in (0, 1) for line in ("", ", 2", ", 3")]


def test_nothing_can_be_merged() -> None:
    assert merge([]) == []


def test_the_original_s_trace_has_the_steps_between(tmp_path, capsys) -> None:
    trace = Trace(tmp_path / "trace", 1, 2, 3)
    for step in range(5):
        trace.start(step, request("w"))
        trace.end(step, 1000 * step, 1000 * step + 500_000)
        assert not (tmp_path / "trace").exists()
    trace.take([], 0)
    whole = json.loads((tmp_path / "trace" / "1" / "comm.json").read_text())
    assert whole["displayTimeUnit"] == "ms"
    assert [e["ts"] for e in whole["traceEvents"]] == [1, 2]
    one = whole["traceEvents"][0]
    assert one["name"] == one["pid"] == one["args"]["name"] == "Comm.w"
    assert (one["ph"], one["tid"], one["cat"], one["dur"]) == ("X", "total", "Comm", 500)
    assert "Local rank 1: communication traces output done!" in capsys.readouterr().out
    trace.close()


class Leaves(BaseException):
    """Raised by the handler of a signal."""


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("kind", ["timeline", "trace"])
def test_the_handler_of_a_signal_may_end_a_record_at_any_place(tmp_path, kind, leaves) -> None:
    number, there_is_one = 0, True
    while there_is_one:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / ("t.json" if kind == "timeline" else "0/comm.json")
        record = Timeline(path) if kind == "timeline" else Trace(folder, 0, 1, 9)

        def user(record: Recorder = record) -> None:
            for handle in (1, 2):
                record.start(handle, request("w"))
                record.take([piece("v", 1, (0, 1, 2, 3))], 0)
                record.end(handle, 0, 0)

        def handler(record: Recorder = record) -> None:
            record.start(3, request("of the handler"))
            record.end(3, 0, 0)
            record.close()
            if leaves:
                raise Leaves

        with contextlib.suppress(Leaves):
            there_is_one = interruptions.at_place(number, user, handler, "timeline.py", "turns.py")
        assert record.is_done() == there_is_one
        if there_is_one:
            assert "of the handler" in path.read_text()
            json.loads(path.read_text())
    assert number > 50


def lines_of_a_start(folder: Path, names: int) -> int:
    """Return how many lines of Python run when one of many names begins a step past the last."""
    trace = Trace(folder, 0, 1, 1)
    for step in range(2):
        for name in range(names):
            trace.start(step * names + name, request(f"w{name}"))
            trace.end(step * names + name, 1000, 2000)
    lines = 0

    def count(*_: object) -> object:
        nonlocal lines
        lines += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        trace.start(2 * names, request("w0"))
    finally:
        sys.settrace(before)
    return lines


def test_a_start_costs_the_same_beside_many_names(tmp_path) -> None:
    assert lines_of_a_start(tmp_path / "many", 5000) == lines_of_a_start(tmp_path / "few", 5)


def test_a_name_that_begins_late_is_traced(tmp_path) -> None:
    trace = Trace(tmp_path / "trace", 0, 1, 1)
    for step, name in enumerate(("w", "w", "v")):
        trace.start(step, request(name))
        trace.end(step, 1000, 2000)
    trace.take([], 0)
    assert not trace.is_done()  # the second step of `v` has not begun
    trace.start(3, request("v"))
    trace.take([], 0)
    assert trace.is_done()


def test_when_the_last_file_is_written_nothing_is_recorded_any_more(core, tmp_path) -> None:
    default.init()
    session = default.current()
    trace = Trace(tmp_path / "trace", 0, 1, 1)
    session.add_recorder(trace)
    assert core.records
    for _ in range(2):
        handle = session.start(request("w", Operation.BARRIER))
        session.wait(handle)
        session.release(handle)
    session._take_entries()
    assert trace.is_done()
    assert not core.records
    assert session._recorders == ()


def test_the_environment_asks_for_records(core, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("HOROVOD_TIMELINE", str(tmp_path / "t.json"))
    monkeypatch.setenv("BYTEPS_TRACE_ON", "1")
    monkeypatch.setenv("BYTEPS_TRACE_START_STEP", "1")
    monkeypatch.setenv("BYTEPS_TRACE_END_STEP", "2")
    monkeypatch.setenv("BYTEPS_TRACE_DIR", str(tmp_path / "trace"))
    default.init()
    session = default.current()
    handle = session.start(Request("w", Operation.BARRIER, DataType.UINT8, (), 0, 0))
    session.wait(handle)
    session.release(handle)
    default.shutdown()
    assert any(event.get("name") == "BARRIER" for event in events_of(tmp_path / "t.json"))
    assert (tmp_path / "trace" / "0" / "comm.json").exists()


def test_dynamic_names_no_file(monkeypatch) -> None:
    monkeypatch.setenv("HOROVOD_TIMELINE", "DYNAMIC")
    assert environment.timeline() is None


@pytest.mark.parametrize(("first", "last"), [("0", "3"), ("3", "3"), ("x", "3")])
def test_steps_of_a_trace_are_checked(monkeypatch, first, last) -> None:
    monkeypatch.setenv("BYTEPS_TRACE_ON", "1")
    monkeypatch.setenv("BYTEPS_TRACE_START_STEP", first)
    monkeypatch.setenv("BYTEPS_TRACE_END_STEP", last)
    with pytest.raises(InvalidArgumentError, match="BYTEPS_TRACE_START_STEP"):
        environment.trace()


def test_every_rank_has_a_file_of_its_own() -> None:
    assert str(file_of_rank("a/t.json", 0)) == "a/t.json"
    assert str(file_of_rank("a/t.json", 3)) == "a/t.rank3.json"


MS = 1_000_000  # in ns
PIECE, WHOLE = 1, 3  # kinds of entries


def piece(name: str, number: int, at_ms: tuple[int, ...], base_ns: int = 0) -> Entry:
    at = [base_ns + moment * MS for moment in at_ms]
    return Entry(name, PIECE, 0, 0, 7, number, 256, 1, 64, at)


def test_the_stages_of_pieces_are_in_the_row_of_their_tensor(tmp_path) -> None:
    timeline = Timeline(tmp_path / "t.json")
    base = timeline._begun_ns
    timeline.take([piece("w", 2, (1, 3, 3, 6, 10), base)], lost=5)
    timeline.close()
    events = events_of(tmp_path / "t.json")
    stages = [e for e in events if e.get("cat") == "PIECE"]
    assert [(e["name"], e["ts"], e["dur"]) for e in stages] == [
        ("QUEUE", 1000, 2000), ("PUSH", 3000, 3000), ("PULL", 6000, 4000),
    ]  # fmt: skip
    about = {"tensor": 7, "piece": 2, "round": 256, "shard": 1, "bytes": 64}
    assert all(e["args"] == about and e["pid"] == 1 and e["tid"] == 3 for e in stages)
    assert any(e["name"] == "5 pieces are not in it" for e in events)


def test_a_stage_before_the_exchange_is_shown_where_there_is_one() -> None:
    stages = [stage for stage, _, _ in piece("w", 0, (1, 3, 4, 6, 10)).stages()]
    assert stages == ["QUEUE", "PREPARE", "PUSH", "PULL"]


def test_operations_that_a_framework_has_started_are_in_it(tmp_path) -> None:
    timeline = Timeline(tmp_path / "t.json")
    at = timeline._begun_ns
    timeline.take([Entry("g", WHOLE, 6, 1, 9, 0, 256, 0, 80, [at + MS, at + 4 * MS, 0, 0, 0])], 0)
    timeline.close()
    events = [e for e in events_of(tmp_path / "t.json") if e["pid"] == 1 and e["ph"] != "M"]
    assert [e.get("name") for e in events] == [
        "NEGOTIATE_ALLGATHER", "0", None, "ALLGATHER", None,
    ]  # fmt: skip
    assert events[-1]["ts"] - events[-2]["ts"] == 3000
    assert events[-1]["args"] == {"dtype": "float64", "bytes": 80}


def server_file(clock_us: int, rounds: list[tuple[int, int, int, int, int]]) -> list[dict]:
    """Return the file of a server: piece, and when its round began, was whole, summed, answered."""
    events: list[dict] = [{"name": "process_name", "ph": "M", "pid": 0, "args": {
        "start_time_since_epoch_in_micros": clock_us, "server": 0}}]  # fmt: skip
    for number, *moments in rounds:
        stages = zip(("WAIT", "SUM", "ANSWER"), moments, moments[1:], strict=False)
        for name, begun, ended in stages:
            about = {"tensor": 7, "piece": number, "round": 256, "last": 1}
            events.append({"name": name, "cat": "PIECE", "ph": "X", "pid": 8, "tid": number,
                           "ts": begun, "dur": ended - begun, "args": about})  # fmt: skip
    return events


def rank_with_pieces(tmp_path, rank: int, late_us: int) -> list[dict]:
    timeline = Timeline(tmp_path / f"{rank}.json", rank)
    base = timeline._begun_ns
    timeline._now_us = lambda: 1000 + late_us  # type: ignore
    timeline.start(1, request("w"))
    pieces = []
    for number in (0, 1):
        at = [1000 + late_us, 1500 + late_us, 1500 + late_us, 5000 + number, 6000]
        pieces.append(Entry("w", PIECE, 0, 0, 7, number, 256, 1, 64, [base + t * 1000 for t in at]))
    timeline.take(pieces, 0)
    timeline.end(1, base + (1000 + late_us) * 1000, base + 6000 * 1000)
    timeline.close()
    events = events_of(tmp_path / f"{rank}.json")
    events[0]["args"]["start_time_since_epoch_in_micros"] = 10**15
    return events


def test_servers_are_merged_with_queueing_and_service_apart(tmp_path) -> None:
    # Rank 1 comes 2 ms late. The server's clock is a minute behind.
    minute = 60_000_000
    rounds = [(0, 1600, 3600, 4000, 4100), (1, 1700, 3700, 4100, 4200)]
    merged = merge([rank_with_pieces(tmp_path, 0, 0), rank_with_pieces(tmp_path, 1, 2000),
                    server_file(10**15 - minute, rounds)])  # fmt: skip
    title = {e["pid"]: e["args"]["name"] for e in merged if e["name"] == "process_name"}
    assert list(title.values()) == [
        "ranks", "w", "pieces of rank 0", "pieces of rank 1", "server 0",
    ]  # fmt: skip
    by_place: dict[str, list[dict]] = {}
    for event in merged:
        if event["ph"] == "X":
            by_place.setdefault(title[event["pid"]], []).append(event)
    of_server = by_place["server 0"]
    assert {e["name"]: e["dur"] for e in of_server if e["args"]["piece"] == 0} == {
        "WAIT w": 2000, "SUM w": 400, "SEND w": pytest.approx(2000, abs=700),
    }  # fmt: skip
    # Both bounds hold: it is summed after the last push, and before the first answer.
    zero = next(e for e in merged if e["name"] == "process_name")["args"]
    assert zero["start_time_since_epoch_in_micros"] == 10**15 + 1000
    for event in of_server:
        if event["cat"] == "SUM":
            assert 3500 - 1000 <= event["ts"] <= 5000 - 1000, event
    assert next(e for e in of_server if e["cat"] == "WAIT")["args"]["last"] == 1
    queue = [e for e in by_place["pieces of rank 1"] if e["cat"] == "QUEUE"]
    assert [(e["name"], e["dur"]) for e in queue] == [("QUEUE w", 500)]
    assert sum(e["cat"] == "PUSH" for e in by_place["pieces of rank 1"]) == 2
    whole = next(e for e in by_place["ranks"] if e["args"]["waited_for_others_us"] == 2000)
    assert whole["args"]["pieces"] == 2
    assert whole["args"]["queue_us"] == 500
    assert whole["args"]["push_us"] == 3500.5


def test_no_pieces_overlap_in_a_row(tmp_path) -> None:
    rounds = [(0, 1600, 3600, 4000, 4100), (1, 1700, 3700, 4100, 4200)]
    merged = merge([rank_with_pieces(tmp_path, 0, 0), rank_with_pieces(tmp_path, 1, 2000),
                    server_file(10**15, rounds)])  # fmt: skip
    rows: dict[tuple[int, int], int] = {}
    for event in merged:
        if event["ph"] == "X":
            row = event["pid"], event["tid"]
            assert event["ts"] >= rows.get(row, 0), event
            rows[row] = event["ts"] + event["dur"]


def test_a_server_alone_cannot_be_merged() -> None:
    assert merge([server_file(0, [])]) == []


def test_the_original_s_trace_has_stages_of_the_steps_between(tmp_path) -> None:
    trace = Trace(tmp_path / "trace", 0, 1, 2)
    trace.start(1, request("w"))
    trace.start(2, request("v"))
    base = trace._begun["w"]
    trace.take([piece("w", 0, (1, 2, 2, 3, 4), base), piece("u", 0, (1, 2, 2, 3, 4), base)], 0)
    trace.end(1, base, base + 5 * MS)
    trace.end(2, base, base + 5 * MS)
    trace.take([piece("w", 1, (6, 7, 7, 8, 9), base)], 0)  # of a step that has not ended
    trace.close()
    whole = json.loads((tmp_path / "trace" / "0" / "comm.json").read_text())
    stages = [(e["name"], e["tid"], e["dur"]) for e in whole["traceEvents"] if e["tid"] != "total"]
    key = str(7 << 16)
    assert stages == [
        ("Comm.w.QUEUE", key, 1000), ("Comm.w.PUSH", key, 1000), ("Comm.w.PULL", key, 1000),
    ]  # fmt: skip


def test_a_record_that_begins_anew_in_its_file_has_nothing_of_the_one_before(
    core, tmp_path
) -> None:
    default.init()
    default.start_timeline(str(tmp_path / "t.json"))
    core.entries = [("byteps.old", PIECE, 0, 0, 7, 0, 256, 1, 64, [1, 2, 3, 4, 5])]
    default.start_timeline(str(tmp_path / "t.json"))
    core.entries = [("byteps.w", PIECE, 0, 0, 7, 0, 256, 1, 64, [1, 2, 3, 4, 5])]
    default.stop_timeline()
    events = events_of(tmp_path / "t.json")
    names = {e["args"].get("name") for e in events if e.get("name") == "process_name"}
    assert names == {None, "w"}
    default.shutdown()


def test_the_session_takes_what_the_library_keeps(core, tmp_path) -> None:
    default.init()
    assert not core.records
    default.start_timeline(str(tmp_path / "t.json"))
    assert core.records
    core.entries = [("byteps.w", PIECE, 0, 0, 7, 0, 256, 1, 64, [1, 2, 3, 4, 5])]
    default.stop_timeline()
    assert not core.records
    events = events_of(tmp_path / "t.json")
    assert any(e.get("name") == "PULL" for e in events)
    assert any(e["name"] == "process_name" and e["args"].get("name") == "w" for e in events[1:])
    default.shutdown()
