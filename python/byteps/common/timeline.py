"""Records of operations that chrome://tracing and Perfetto show.

A `Timeline` is a file in Horovod's format: a row (there: a process) for each tensor. A `Trace` is
the file of the original BytePS: some steps of every tensor. `merge` makes one file of the timelines
of several ranks, by one clock.
"""

from __future__ import annotations

import json
import os
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, Protocol

from byteps.common.request import Request

_REDUCTIONS = ("SUM", "AVERAGE", "MIN", "MAX", "PRODUCT")


class Recorder(Protocol):
    """Hears of operations, from their start until somebody has their result. Any thread."""

    def start(self, handle: int, request: Request) -> None:
        """Note that an operation begins."""

    def end(self, handle: int, begun_ns: int, ended_ns: int) -> None:
        """Note an operation's times, by the monotonic clock; 0: not known."""

    def close(self) -> None:
        """End the file; what is still on its way is not in it. Idempotent."""


def kind_of(request: Request) -> str:
    """Return what Horovod calls such an operation."""
    name = request.operation.name
    return "ALLREDUCE" if name in _REDUCTIONS else name


def file_of_rank(path: str | Path, rank: int) -> Path:
    """Return where a rank writes: rank 0 to the path itself."""
    path = Path(path)
    return path if rank == 0 else path.with_name(f"{path.stem}.rank{rank}{path.suffix}")


class Timeline:
    """Writes a rank's operations; the file is valid JSON after every event."""

    def __init__(self, path: str | Path, rank: int = 0) -> None:
        """Open the file, and forget what was in it."""
        self._lock = threading.Lock()
        self._begun_ns = time.monotonic_ns()
        self._rank = rank
        self._rows: dict[str, int] = {}
        self._open: dict[int, tuple[int, Request, int]] = {}
        self._file: IO[bytes] | None = Path(path).open("wb", buffering=0)  # noqa: SIM115
        self._file.write(b"[\n]")
        epoch_us = time.time_ns() // 1000
        self._write([{"name": "process_name", "ph": "M", "pid": 0, "args": {
            "start_time_since_epoch_in_micros": epoch_us, "rank": rank}}])  # fmt: skip

    def start(self, handle: int, request: Request) -> None:
        """Write that this rank has come to an operation."""
        with self._lock:
            row, kind, ts = self._row(request.name), kind_of(request), self._now_us()
            self._open[handle] = (row, request, ts)
            self._write([
                {"name": f"NEGOTIATE_{kind}", "ph": "B", "pid": row, "ts": ts},
                {"name": str(self._rank), "ph": "X", "pid": row, "ts": ts, "dur": 0},
            ])  # fmt: skip

    def end(self, handle: int, begun_ns: int, ended_ns: int) -> None:
        """Write when the operation began and ended; where that is not known, now."""
        with self._lock:
            row, request, ts = self._open.pop(handle, (0, None, 0))
            if request is None:
                return
            ended = self._us(ended_ns) if ended_ns else self._now_us()
            begun = min(max(ts, self._us(begun_ns) if begun_ns else ts), ended)
            shape = str(list(request.shape))
            self._write([
                {"ph": "E", "pid": row, "ts": begun},
                {"name": kind_of(request), "ph": "B", "pid": row, "ts": begun},
                {"ph": "E", "pid": row, "ts": max(ended, begun),
                 "args": {"dtype": request.dtype.name.lower(), "shape": shape}},
            ])  # fmt: skip

    def close(self) -> None:
        """End the file; what is still on its way is not in it. Idempotent."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _row(self, name: str) -> int:
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = len(self._rows) + 1
            self._write([
                {"name": "process_name", "ph": "M", "pid": row, "args": {"name": name}},
                {"name": "process_sort_index", "ph": "M", "pid": row, "args": {"sort_index": row}},
            ])  # fmt: skip
        return row

    def _now_us(self) -> int:
        return self._us(time.monotonic_ns())

    def _us(self, at_ns: int) -> int:
        return (at_ns - self._begun_ns) // 1000

    def _write(self, events: list[dict[str, Any]]) -> None:
        if self._file is None:
            return
        first = self._file.tell() == len(b"[\n]")
        text = ",\n".join(json.dumps(event) for event in events)
        self._file.seek(-1 if first else -2, os.SEEK_END)
        self._file.write((text + "\n]" if first else ",\n" + text + "\n]").encode())


class Trace:
    """Steps `first` to `last` of every tensor, in the file of the original BytePS."""

    def __init__(self, folder: str | Path, local_rank: int, first: int, last: int) -> None:
        """Count steps from 1, for each tensor by itself."""
        self._lock = threading.Lock()
        self._file = Path(folder) / str(local_rank) / "comm.json"
        self._local_rank = local_rank
        self._steps, self._first, self._last = defaultdict[str, int](int), first, last
        self._open: dict[int, tuple[str, int]] = {}
        self._events: list[dict[str, Any]] = []
        self._written = False

    def start(self, handle: int, request: Request) -> None:
        """Count a step of this tensor."""
        with self._lock:
            self._steps[request.name] += 1
            if self._first <= self._steps[request.name] <= self._last:
                self._open[handle] = (f"Comm.{request.name}", time.monotonic_ns())
            is_past = all(step > self._last for step in self._steps.values())
            if is_past and not self._open:
                self._save()

    def end(self, handle: int, begun_ns: int, ended_ns: int) -> None:
        """Keep the event of a step that is traced."""
        with self._lock:
            name, started_ns = self._open.pop(handle, ("", 0))
            if not name:
                return
            begun, ended = begun_ns or started_ns, ended_ns or time.monotonic_ns()
            self._events.append({
                "ph": "X", "args": {"name": name}, "pid": name, "name": name, "tid": "total",
                "ts": begun // 1000, "dur": max(0, ended - begun) // 1000, "cat": "Comm",
            })  # fmt: skip

    def close(self) -> None:
        """Write what there is, if that was not done."""
        with self._lock:
            self._save()

    def _save(self) -> None:
        if self._written or not self._events:
            return
        self._written = True
        self._file.parent.mkdir(parents=True, exist_ok=True)
        whole = {"traceEvents": self._events, "displayTimeUnit": "ms"}
        self._file.write_text(json.dumps(whole), encoding="utf-8")
        # tidy-allow(print): the original prints this line, and tools wait for it.
        print(f"Local rank {self._local_rank}: communication traces output done!", flush=True)


class _Use:
    """One operation on one rank, in microseconds by that rank's clock."""

    def __init__(self, kind: str, begun: int) -> None:
        self.kind, self.begun = kind, begun
        self.ended: int | None = None


def _uses_in(events: Iterable[Mapping[str, Any]]) -> tuple[int, int, dict[tuple[str, int], _Use]]:
    """Return a timeline's rank, its start since the epoch, and its uses of names by number."""
    names: dict[int, str] = {}
    counts: defaultdict[str, int] = defaultdict(int)
    uses: dict[tuple[str, int], _Use] = {}
    open_by_row: defaultdict[int, list[tuple[str, _Use | None]]] = defaultdict(list)
    rank = start = 0
    for event in events:
        row = event["pid"]
        if event["ph"] == "M" and row == 0:
            rank, start = event["args"]["rank"], event["args"]["start_time_since_epoch_in_micros"]
        elif event["ph"] == "M" and "name" in event["args"]:
            names[row] = event["args"]["name"]
        elif event["ph"] == "B" and event["name"].startswith("NEGOTIATE_"):
            counts[names[row]] += 1
            use = _Use(event["name"].removeprefix("NEGOTIATE_"), event["ts"])
            uses[names[row], counts[names[row]]] = use
            open_by_row[row].append(("negotiate", use))
        elif event["ph"] == "B":
            last = uses.get((names[row], counts[names[row]]))
            open_by_row[row].append(("operation", last))
        elif event["ph"] == "E" and open_by_row[row]:
            what, ended_use = open_by_row[row].pop()
            if what == "operation" and ended_use is not None:
                ended_use.ended = event["ts"]
    return rank, start, uses


def merge(timelines: Iterable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Make one timeline of those of several ranks.

    All ranks come to the end of an operation at about the same time. So the median difference of
    their ends is the difference of their clocks. For each tensor NEGOTIATE lasts from the first
    rank's begin to the last one's: the time in which ranks waited for others. What follows is the
    operation itself. Every rank also has rows of its own, with all that it waited for: as many rows
    as it has operations at a time, as Perfetto drops one that overlaps another one in its row.
    """
    ranks = {}
    for events in timelines:
        rank, start, uses = _uses_in(events)
        ranks[rank] = {key: use for key, use in uses.items() if use.ended is not None}
        for use in ranks[rank].values():
            use.begun, use.ended = use.begun + start, (use.ended or 0) + start
    if not ranks:
        return []
    base = ranks[min(ranks)]
    for uses in ranks.values():
        ahead = [(use.ended or 0) - (base[key].ended or 0) for key, use in uses.items()
                 if key in base]  # fmt: skip
        offset = int(statistics.median(ahead)) if ahead else 0
        for use in uses.values():
            use.begun, use.ended = use.begun - offset, (use.ended or 0) - offset
    return _merged(ranks)


def _lines(uses: Mapping[tuple[str, int], _Use]) -> dict[tuple[str, int], int]:
    """Return for each operation of a rank a line in which it overlaps no other one."""
    lines: dict[tuple[str, int], int] = {}
    free_at: list[int] = []  # each line
    for key, use in sorted(uses.items(), key=lambda item: item[1].begun):
        free = (line for line, moment in enumerate(free_at) if moment <= use.begun)
        line = next(free, len(free_at))
        if line == len(free_at):
            free_at.append(0)
        free_at[line] = max(use.begun, use.ended or 0)
        lines[key] = line
    return lines


def _merged(ranks: Mapping[int, Mapping[tuple[str, int], _Use]]) -> list[dict[str, Any]]:
    zero = min((use.begun for uses in ranks.values() for use in uses.values()), default=0)
    keys = sorted({key for uses in ranks.values() for key in uses})
    rows = {name: row for row, name in enumerate(dict.fromkeys(name for name, _ in keys), 1)}
    events: list[dict[str, Any]] = [{"name": "process_name", "ph": "M", "pid": 0, "args": {
        "start_time_since_epoch_in_micros": zero, "name": "ranks"}}]  # fmt: skip
    row_of: dict[tuple[int, tuple[str, int]], int] = {}
    for rank in sorted(ranks):
        first_row = max(row_of.values(), default=0) + 1
        for key, line in _lines(ranks[rank]).items():
            row_of[rank, key] = first_row + line
        for row in range(first_row, max(row_of.values(), default=0) + 1):
            name = f"rank {rank}" if row == first_row else f"rank {rank}, {row - first_row + 1}"
            events += [
                {"name": "thread_name", "ph": "M", "pid": 0, "tid": row, "args": {"name": name}},
                {"name": "thread_sort_index", "ph": "M", "pid": 0, "tid": row,
                 "args": {"sort_index": row}},
            ]  # fmt: skip
    for name, row in rows.items():
        events.append({"name": "process_name", "ph": "M", "pid": row, "args": {"name": name}})
        events.append({"name": "process_sort_index", "ph": "M", "pid": row,
                       "args": {"sort_index": row}})  # fmt: skip
    spans: list[dict[str, Any]] = []
    free_at: dict[int, int] = {}  # of a row: two uses never overlap, but clocks are not exact
    for key in keys:
        uses = {rank: of[key] for rank, of in ranks.items() if key in of}
        row, kind = rows[key[0]], next(iter(uses.values())).kind
        first = max(min(u.begun for u in uses.values()), free_at.get(row, 0))
        last = max(max(u.begun for u in uses.values()), first)
        ended = free_at[row] = max(max(u.ended or 0 for u in uses.values()), last)
        spans += [
            {"name": f"NEGOTIATE_{kind}", "ph": "X", "pid": row, "tid": 1, "ts": first - zero,
             "dur": last - first},
            {"name": kind, "ph": "X", "pid": row, "tid": 1, "ts": last - zero,
             "dur": ended - last},
        ]  # fmt: skip
        for rank, use in uses.items():
            spans += [
                {"name": str(rank), "ph": "i", "s": "p", "pid": row, "tid": 1,
                 "ts": use.begun - zero},
                {"name": key[0], "cat": kind, "ph": "X", "pid": 0, "tid": row_of[rank, key],
                 "ts": use.begun - zero, "dur": max(0, (use.ended or 0) - use.begun),
                 "args": {"waited_for_others_us": max(0, last - use.begun)}},
            ]  # fmt: skip
    return events + sorted(spans, key=lambda event: event["ts"])
