"""A record of operations that chrome://tracing and Perfetto show: a row for each tensor."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import IO


class Timeline:
    """Writes one event per operation, from its start until somebody has its result. Any thread."""

    def __init__(self, path: str | Path) -> None:
        """Open the file. It is readable at any time: viewers do not need its last bracket."""
        self._lock = threading.Lock()
        self._begun_ns = time.monotonic_ns()
        self._rows: dict[str, int] = {}
        self._open: dict[int, tuple[str, str, int]] = {}
        file = Path(path).open("w", encoding="utf-8", buffering=1)  # noqa: SIM115
        file.write("[\n")
        self._file: IO[str] | None = file
        epoch_us = time.time_ns() // 1000
        self._write({"name": "start", "ph": "M", "args": {
            "start_time_since_epoch_in_micros": epoch_us}})  # fmt: skip

    def start(self, handle: int, name: str, operation: str) -> None:
        """Remember when an operation began."""
        with self._lock:
            self._open[handle] = (name, operation, self._now_us())

    def end(self, handle: int) -> None:
        """Write the operation's event."""
        with self._lock:
            name, operation, begun_us = self._open.pop(handle, ("", "", 0))
            if not name:
                return
            row = self._rows.get(name)
            if row is None:
                row = self._rows[name] = len(self._rows) + 1
                self._write({"name": "thread_name", "ph": "M", "tid": row, "args": {"name": name}})
            self._write({
                "name": operation, "ph": "X", "tid": row, "ts": begun_us,
                "dur": self._now_us() - begun_us,
            })  # fmt: skip

    def close(self) -> None:
        """End the file; what is still on its way is not in it. Idempotent."""
        with self._lock:
            if self._file is not None:
                self._file.write("{}]\n")
                self._file.close()
                self._file = None

    def _now_us(self) -> int:
        return (time.monotonic_ns() - self._begun_ns) // 1000

    def _write(self, event: dict[str, object]) -> None:
        if self._file is not None:
            self._file.write(json.dumps({"pid": 0, **event}) + ",\n")
