"""Records of operations and their pieces that chrome://tracing and Perfetto show.

A `Timeline` is a file in Horovod's format: a row (there: a process) for each tensor. A `Trace` is
the file of the original BytePS: some steps of every tensor. `timeline_merge` makes one file of the
timelines of several ranks and servers, by one clock.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from byteps.common.errors import InvalidArgumentError
from byteps.common.request import Request
from byteps.common.timeline.turns import Turns
from byteps.common.types import DataType, Operation

_REDUCTIONS = ("SUM", "AVERAGE", "MIN", "MAX", "PRODUCT")

_PIECE = 1  # byteps_entry_kind
_BEGIN, _END = b"[\n]", b"\n]"
# A timeline of a long job would fill the disk.
_BYTES_MAX = 1 << 30
_LOG = logging.getLogger("byteps")

# The category of events of single pieces; `timeline_merge` looks for it.
PIECE_CATEGORY = "PIECE"
# What lies between the moments of a piece: it waits for credit; what the machine's ranks or a codec
# do with it first; its push is on its way, or the server waits for others; its sum comes in.
STAGES = ("QUEUE", "PREPARE", "PUSH", "PULL")


class Entry(NamedTuple):
    """What the library has kept of a piece, or of an operation that nobody waits for."""

    name: str
    kind: int
    operation: int
    dtype: int
    tensor: int
    piece: int
    round: int
    shard: int
    bytes: int
    at_ns: Sequence[int]  # by the monotonic clock

    @property
    def is_piece(self) -> bool:
        """Whether it is a piece; otherwise it is an operation."""
        return self.kind == _PIECE

    def stages(self) -> list[tuple[str, int, int]]:
        """Return the stages of a piece, in order, with begin and end in ns; no empty PREPARE."""
        moments = zip(STAGES, self.at_ns, self.at_ns[1:], strict=False)
        return [(stage, begin, end) for stage, begin, end in moments
                if stage != "PREPARE" or end - begin >= 1000]  # fmt: skip


class Recorder(Protocol):
    """Hears of operations, from their start until somebody has their result. Any thread, and the
    handler of a signal, also one that interrupts a method here."""

    def start(self, handle: int, request: Request) -> None:
        """Note that an operation begins."""

    def end(self, handle: int, begun_ns: int, ended_ns: int) -> None:
        """Note an operation's times, by the monotonic clock; 0: not known."""

    def take(self, entries: Sequence[Entry], lost: int) -> None:
        """Note what the library has kept; it had no room for `lost` more. Empty: that was all."""

    def is_done(self) -> bool:
        """Return whether this needs to hear nothing more."""

    def close(self) -> None:
        """End the file; what is still on its way is not in it. Idempotent."""


def kind_of(operation: Operation) -> str:
    """Return what Horovod calls such an operation."""
    return "ALLREDUCE" if operation.name in _REDUCTIONS else operation.name


def file_of_rank(path: str | Path, rank: int) -> Path:
    """Return where a rank writes: rank 0 to the path itself."""
    path = Path(path)
    return path if rank == 0 else path.with_name(f"{path.stem}.rank{rank}{path.suffix}")


class Timeline:
    """Writes a rank's operations; the file is valid JSON after every event."""

    def __init__(self, path: str | Path, rank: int = 0) -> None:
        """Open the file, and forget what was in it. InvalidArgumentError if it cannot be opened."""
        self._turns = Turns()
        self._begun_ns = time.monotonic_ns()
        self._rank = rank
        self._rows: dict[str, int] = {}
        self._open: dict[int, tuple[int, Request, int]] = {}
        self._file: IO[bytes] | None = _opened(Path(path))
        self._file.write(_BEGIN)
        epoch_us = time.time_ns() // 1000
        self._write([{"name": "process_name", "ph": "M", "pid": 0, "args": {
            "start_time_since_epoch_in_micros": epoch_us, "rank": rank}}])  # fmt: skip

    def start(self, handle: int, request: Request) -> None:
        """Write that this rank has come to an operation."""
        self._turns.run(partial(self._write_start, handle, request, self._now_us()))

    def end(self, handle: int, begun_ns: int, ended_ns: int) -> None:
        """Write when the operation began and ended; where that is not known, now."""
        ended = self._us(ended_ns) if ended_ns else self._now_us()
        self._turns.run(partial(self._write_end, handle, begun_ns, ended))

    def take(self, entries: Sequence[Entry], lost: int) -> None:
        """Write the stages of pieces, and operations that a framework has started."""
        self._turns.run(partial(self._write_entries, entries, lost))

    def is_done(self) -> bool:
        """Return whether the file has been ended."""
        return self._file is None

    def close(self) -> None:
        """End the file; what is still on its way is not in it. Idempotent."""
        self._turns.run(self._close)

    # The steps of `_turns`.

    def _write_start(self, handle: int, request: Request, ts: int) -> None:
        row, kind = self._row(request.name), kind_of(request.operation)
        self._open[handle] = (row, request, ts)
        self._write([
            {"name": f"NEGOTIATE_{kind}", "ph": "B", "pid": row, "ts": ts},
            {"name": str(self._rank), "ph": "X", "pid": row, "ts": ts, "dur": 0},
        ])  # fmt: skip

    def _write_end(self, handle: int, begun_ns: int, ended: int) -> None:
        row, request, ts = self._open.pop(handle, (0, None, 0))
        if request is None:
            return
        begun = min(max(ts, self._us(begun_ns) if begun_ns else ts), ended)
        shape = str(list(request.shape))
        self._write([
            {"ph": "E", "pid": row, "ts": begun},
            {"name": kind_of(request.operation), "ph": "B", "pid": row, "ts": begun},
            {"ph": "E", "pid": row, "ts": max(ended, begun),
             "args": {"dtype": request.dtype.name.lower(), "shape": shape}},
        ])  # fmt: skip

    def _write_entries(self, entries: Sequence[Entry], lost: int) -> None:
        events: list[dict[str, Any]] = []
        for entry in entries:
            row = self._row(entry.name)
            events += self._of_piece(row, entry) if entry.is_piece else self._whole(row, entry)
        if lost:
            events.append({"name": f"{lost} pieces are not in it", "ph": "i", "s": "g",
                           "pid": 0, "ts": self._now_us()})  # fmt: skip
        if events:
            self._write(events)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _of_piece(self, row: int, entry: Entry) -> list[dict[str, Any]]:
        about = {"tensor": entry.tensor, "piece": entry.piece, "round": entry.round,
                 "shard": entry.shard, "bytes": entry.bytes}  # fmt: skip
        return [
            {"name": stage, "cat": PIECE_CATEGORY, "ph": "X", "pid": row, "tid": entry.piece + 1,
             "ts": self._us(begin), "dur": self._us(end) - self._us(begin), "args": about}
            for stage, begin, end in entry.stages()
        ]  # fmt: skip

    def _whole(self, row: int, entry: Entry) -> list[dict[str, Any]]:
        begun, ended = self._us(entry.at_ns[0]), self._us(entry.at_ns[1])
        kind = kind_of(Operation(entry.operation))
        return [
            {"name": f"NEGOTIATE_{kind}", "ph": "B", "pid": row, "ts": begun},
            {"name": str(self._rank), "ph": "X", "pid": row, "ts": begun, "dur": 0},
            {"ph": "E", "pid": row, "ts": begun},
            {"name": kind, "ph": "B", "pid": row, "ts": begun},
            {"ph": "E", "pid": row, "ts": ended,
             "args": {"dtype": DataType(entry.dtype).name.lower(), "bytes": entry.bytes}},
        ]  # fmt: skip

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
        # The file itself says where it ends: a signal may break this off at any place.
        size = self._file.seek(0, os.SEEK_END)
        is_first = size == len(_BEGIN)
        keep = size - len(_END) + (1 if is_first else 0)
        text = ",\n".join(json.dumps(event) for event in events)
        more = (("" if is_first else ",\n") + text).encode() + _END
        if keep + len(more) > _BYTES_MAX:
            why = f"it has {_BYTES_MAX >> 20} MiB, the most that a timeline gets"
            self._give_up(keep, why)
            return
        try:
            self._file.seek(keep)
            if self._file.write(more) != len(more):
                self._give_up(keep, "the disk is full")
        except OSError as error:
            self._give_up(keep, error.strerror or str(error))

    def _give_up(self, keep: int, why: str) -> None:
        """End the file with what it has, which stays valid JSON; the job goes on."""
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            self._file.truncate(keep)
            self._file.seek(keep)
            self._file.write(_END)
        name = self._file.name
        self._close()
        _LOG.warning(
            "the timeline %s of rank %d ends here: %s. Record fewer steps, with start_timeline and "
            "stop_timeline, or name a file on a disk that has room.",
            *(name, self._rank, why),
        )


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("wb", buffering=0)
    except OSError as error:
        raise InvalidArgumentError(
            f"the timeline {path} cannot be written: {error.strerror}. Name a file in a folder "
            "that is there, on this machine, and that this user may write."
        ) from None


class Trace:
    """Steps `first` to `last` of every tensor, in the file of the original BytePS."""

    def __init__(self, folder: str | Path, local_rank: int, first: int, last: int) -> None:
        """Count steps from 1, for each tensor by itself."""
        self._turns = Turns()
        self._file = Path(folder) / str(local_rank) / "comm.json"
        self._local_rank = local_rank
        self._steps, self._first, self._last = defaultdict[str, int](int), first, last
        self._not_past = 0  # how many names have begun, and not gone beyond the last step
        self._open: dict[int, tuple[str, int]] = {}
        self._begun: dict[str, int] = {}  # of a tensor's first traced step
        self._ended: dict[str, int] = {}  # of its last one so far
        self._pieces: list[Entry] = []
        self._events: list[dict[str, Any]] = []
        self._due = False  # all steps are over; pieces of the last one may still be taken
        self._written = False

    def start(self, handle: int, request: Request) -> None:
        """Count a step of this tensor."""
        self._turns.run(partial(self._note_start, handle, request, time.monotonic_ns()))

    def end(self, handle: int, begun_ns: int, ended_ns: int) -> None:
        """Keep the event of a step that is traced."""
        ended_ns = ended_ns or time.monotonic_ns()
        self._turns.run(partial(self._note_end, handle, begun_ns, ended_ns))

    def take(self, entries: Sequence[Entry], lost: int) -> None:
        """Keep the pieces of tensors of which a step is traced; write the file behind the last."""
        del lost
        self._turns.run(partial(self._note_entries, entries))

    def is_done(self) -> bool:
        """Return whether the file has been written."""
        return self._written

    def close(self) -> None:
        """Write what there is, if that was not done."""
        self._turns.run(self._save)

    @staticmethod
    def _event(name: str, stage: str, row: str, begin: int, end: int) -> dict[str, Any]:
        comm = f"Comm.{name}"
        return {
            "ph": "X", "args": {"name": comm}, "pid": comm, "name": comm + stage, "tid": row,
            "ts": begin // 1000, "dur": max(0, end - begin) // 1000, "cat": "Comm",
        }  # fmt: skip

    # The steps of `_turns`.

    def _note_start(self, handle: int, request: Request, now_ns: int) -> None:
        self._steps[request.name] = step = self._steps[request.name] + 1
        self._not_past += (step == 1) - (step == self._last + 1)
        if self._first <= step <= self._last:
            self._open[handle] = (request.name, now_ns)
            self._begun.setdefault(request.name, now_ns)
        self._due = self._not_past == 0 and not self._open

    def _note_end(self, handle: int, begun_ns: int, ended_ns: int) -> None:
        name, started_ns = self._open.pop(handle, ("", 0))
        if not name:
            return
        begun_ns = begun_ns or started_ns
        self._begun[name] = min(begun_ns, self._begun[name])
        self._ended[name] = ended_ns
        self._events.append(self._event(name, "", "total", begun_ns, ended_ns))

    def _note_entries(self, entries: Sequence[Entry]) -> None:
        if not self._written:
            self._pieces += [one for one in entries if one.is_piece and one.name in self._begun]
        if self._due and not entries:
            self._save()

    def _save(self) -> None:
        if self._written or not self._events:
            return
        self._written = True
        for piece in self._pieces:
            last = self._ended.get(piece.name, 0)
            if self._begun[piece.name] <= piece.at_ns[0] <= last:
                row = str((piece.tensor << 16) + piece.piece)  # the original's key of a piece
                self._events += [self._event(piece.name, f".{stage}", row, begin, end)
                                 for stage, begin, end in piece.stages()]  # fmt: skip
        self._file.parent.mkdir(parents=True, exist_ok=True)
        whole = {"traceEvents": self._events, "displayTimeUnit": "ms"}
        self._file.write_text(json.dumps(whole), encoding="utf-8")
        # tidy-allow(print): the original prints this line, and tools wait for it.
        print(f"Local rank {self._local_rank}: communication traces output done!", flush=True)
