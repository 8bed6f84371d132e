"""The output of many processes as whole lines, each with the name of its process."""

from __future__ import annotations

import os
from collections.abc import Mapping

_LINE_BYTES_MAX = 1 << 20
_READ_BYTES = 1 << 16
_COLOURS = (36, 32, 33, 35, 34, 31)


class OutputClosedError(Exception):
    """Whoever read the launcher's output is gone."""


def use_colour(descriptor: int, environment: Mapping[str, str]) -> bool:
    """Return whether prefixes are coloured: on a terminal, unless NO_COLOR is set."""
    return os.isatty(descriptor) and not environment.get("NO_COLOR")


def prefix(label: str, index: int, coloured: bool) -> bytes:
    """Return what stands before each line of a process."""
    if not coloured:
        return f"[{label}] ".encode()
    return f"\x1b[{_COLOURS[index % len(_COLOURS)]}m[{label}]\x1b[0m ".encode()


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes, or raise OutputClosedError."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BrokenPipeError:
            raise OutputClosedError from None


class LineForwarder:
    """Reads a pipe and writes its lines. A carriage return ends a line too: progress bars."""

    def __init__(self, source: int, target: int, line_prefix: bytes) -> None:
        self.source = source
        self._target = target
        self._prefix = line_prefix
        self._rest = b""

    def forward(self) -> bool:
        """Read once and write the lines that are whole; return False at the end of the pipe."""
        data = os.read(self.source, _READ_BYTES)
        if not data:
            self.flush()
            return False
        text = (self._rest + data).replace(b"\r\n", b"\n")
        held = b""
        if text.endswith(b"\r"):  # its line feed may be in the next read
            text, held = text[:-1], b"\r"
        lines = text.replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop() + held
        if len(self._rest) > _LINE_BYTES_MAX:
            lines.append(self._rest)
            self._rest = b""
        self._write(lines)
        return True

    def flush(self) -> None:
        """Write the last line if nothing ended it."""
        rest, self._rest = self._rest.rstrip(b"\r"), b""
        if rest:
            self._write([rest])

    def _write(self, lines: list[bytes]) -> None:
        if lines:
            write_all(self._target, b"".join(self._prefix + line + b"\n" for line in lines))
