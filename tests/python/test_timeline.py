"""Records of operations: the files, and one file of several ranks by one clock."""

from __future__ import annotations

import json

import pytest

from byteps.common import default, environment
from byteps.common.errors import InvalidArgumentError
from byteps.common.request import Request
from byteps.common.timeline import Timeline, Trace, file_of_rank, merge
from byteps.common.types import DataType, Operation


def request(name: str, operation: Operation = Operation.SUM) -> Request:
    return Request(name, operation, DataType.FLOAT32, (3, 4), 0, 0)


def events_of(path) -> list[dict]:
    return json.loads(path.read_text())


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
    whole = json.loads((tmp_path / "trace" / "1" / "comm.json").read_text())
    assert whole["displayTimeUnit"] == "ms"
    assert [e["ts"] for e in whole["traceEvents"]] == [1, 2]
    one = whole["traceEvents"][0]
    assert one["name"] == one["pid"] == one["args"]["name"] == "Comm.w"
    assert (one["ph"], one["tid"], one["cat"], one["dur"]) == ("X", "total", "Comm", 500)
    assert "Local rank 1: communication traces output done!" in capsys.readouterr().out
    trace.close()


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
