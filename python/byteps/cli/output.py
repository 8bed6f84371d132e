"""The output of many processes as whole lines, each with the name of its process.

There are two exceptions: on a terminal a progress bar stays in its place, and the question of a
process that reads the launcher's input is shown before its line has an end.

Nothing here blocks. A reader that has paused stops the processes, when their pipes are full, as it
would stop a program alone; it never stops the launcher.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import selectors
import sys
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial

_LINE_BYTES_MAX = 1 << 20
# Of lines that end in a carriage return, as progress bars write them, one in this time is shown.
_PROGRESS_S = 1.0
_PROGRESS_IN_PLACE_S = 0.1
# A line that has no end after this time may be a question.
_QUESTION_S = 0.1
_CLEAR_LINE = b"\r\x1b[K"
# Bars below each other go up between their lines. Here other lines may stand there.
_UPWARDS = re.compile(rb"\x1b\[\d*A")
_READ_BYTES = 1 << 16
_COLOURS = (36, 32, 33, 35, 34, 31)
_COLOUR = re.compile(rb"\x1b\[\d+m")
# From here on a process has to wait for the reader.
_PENDING_BYTES_MAX = 1 << 20
# A pipe that poll calls writable takes this much without blocking.
_CHUNK_BYTES = select.PIPE_BUF


def open_standard_descriptors() -> None:
    """Put /dev/null in place of those of the descriptors 0, 1 and 2 that are closed.

    Call it before anything is opened: what got one of these numbers would be taken for an output.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
            os.set_inheritable(descriptor, True)
    # Without these Python prints errors to the other one, or fails to.
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(descriptor, "w", closefd=False))


def may_read_input() -> bool:
    """Return whether a process of the job may read the launcher's input.

    A launcher in the background of a terminal leaves what is typed there to the shell.
    """
    try:
        return not os.isatty(0) or os.tcgetpgrp(0) == os.getpgrp()
    except OSError:  # the terminal of another session: nobody else of this one reads it
        return True


def use_colour(descriptor: int, environment: Mapping[str, str]) -> bool:
    """Return whether prefixes are coloured: on a terminal, unless NO_COLOR is set."""
    return os.isatty(descriptor) and not environment.get("NO_COLOR")


def prefix(label: str, index: int, coloured: bool) -> bytes:
    """Return what stands before each line of a process."""
    if not coloured:
        return f"[{label}] ".encode()
    return f"\x1b[{_COLOURS[index % len(_COLOURS)]}m[{label}]\x1b[0m ".encode()


def _without_blocking(descriptor: int) -> int:
    """Return a descriptor to write to: of a terminal one that does not block, else the same.

    A terminal that poll calls writable promises less than a line. The descriptor itself stays as it
    is, because whether it blocks is shared with other programs.
    """
    if os.isatty(descriptor):
        with contextlib.suppress(OSError):  # it belongs to another user, as after su
            flags = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK
            return os.open(f"/proc/self/fd/{descriptor}", flags)
    return descriptor


class Output:
    """Bytes on their way to one descriptor, in order. No method blocks."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = _without_blocking(descriptor)
        self.error: OSError | None = None  # why it takes nothing any more
        self.is_ending = False  # nothing more will be put
        # What stands in the last line, which has no end yet: the one that has written it, and
        # whether others may overwrite it.
        self.open_line: tuple[object, bool] | None = None
        self._pending = bytearray()
        self._room = select.poll()
        self._room.register(self.descriptor, select.POLLOUT)

    @property
    def is_pending(self) -> bool:
        """Return whether bytes wait for the reader."""
        return bool(self._pending)

    @property
    def pending_bytes(self) -> int:
        """Return how many bytes wait for the reader."""
        return len(self._pending)

    @property
    def is_full(self) -> bool:
        """Return whether so many bytes wait that no more should come."""
        return len(self._pending) >= _PENDING_BYTES_MAX

    def put(self, data: bytes) -> None:
        """Write what the reader takes now and keep the rest. After an error all is dropped."""
        if self.error is None:
            self._pending += data
            self.write()

    def put_lines(self, lines: bytes, continues: bool = False) -> None:
        """Write whole lines. They follow the open line, or `continue` it."""
        if self.open_line is not None:
            self.put(_CLEAR_LINE if self.open_line[1] else b"" if continues else b"\n")
            self.open_line = None
        self.put(lines)

    def put_open(self, writer: object, text: bytes, is_progress: bool = False) -> None:
        """Write text without an end of line. Later text replaces it if it `is_progress`."""
        self.put_lines(text, continues=self.open_line == (writer, False))
        self.open_line = (writer, is_progress)

    def end_line(self) -> None:
        """End the open line if there is one."""
        if self.open_line is not None:
            self.open_line = None
            self.put(b"\n")

    def write(self) -> None:
        """Write of what is pending as much as the reader takes now."""
        while self._pending and self._room.poll(0):
            try:
                count = os.write(self.descriptor, self._pending[:_CHUNK_BYTES])
            except BlockingIOError:
                return
            except OSError as error:
                self.error = error
                self._pending.clear()
                return
            del self._pending[:count]


class Forwarder:
    """Reads a pipe and writes its bytes as they are."""

    def __init__(
        self,
        source: int,
        target: Output,
        taken_out: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """`taken_out` gets what was read, b"" at the end, and returns what is output of it."""
        self.source = source
        self.target = target
        self.is_muted = False  # reads on, and writes no more
        # When to show a line that has no end yet; None: there is none, or it is no question.
        self.show_at: float | None = None
        self._taken_out = taken_out

    def forward(self) -> bool:
        """Read once and write what can be written now; return False at the end of the pipe."""
        data = os.read(self.source, _READ_BYTES)
        if not data:
            self.end()
            return False
        self._take(data if self._taken_out is None else self._taken_out(data))
        return True

    def end(self) -> None:
        """Write what has waited for more."""
        if self._taken_out is not None:
            self._take(self._taken_out(b""))

    def show(self) -> None:
        """Write what there is of a line that has no end yet."""

    def _take(self, data: bytes) -> None:
        if not self.is_muted:
            self.target.put(data)


class LineForwarder(Forwarder):
    """Reads a pipe and writes its lines.

    A carriage return ends a line too. Of such lines, which a terminal would write over each other,
    one in a second is written, and the last one when a line feed or the end follows. If the output
    is a terminal, they are written over each other there. If it leads to the terminal of another
    launcher, they are passed on with their carriage return.
    """

    def __init__(
        self,
        source: int,
        target: Output,
        line_prefix: bytes,
        watch: Callable[[bytes], object] | None = None,
        copy: Output | None = None,
        has_input: bool = False,
        relays: bool = False,
        taken_out: Callable[[bytes], bytes] | None = None,
        hides: Callable[[bytes], bool] | None = None,
    ) -> None:
        """`watch` gets every line, `copy` every byte. A process that `has_input` asks questions.

        `relays`: the output leads to the terminal of another launcher. `hides` says of a whole line
        whether it is not written.
        """
        super().__init__(source, target, taken_out)
        self._prefix = line_prefix
        self._watch = watch
        self._copy = copy
        self._has_input = has_input
        self._relays = relays
        self._hides = hides
        self._in_place = relays or os.isatty(target.descriptor)
        self._rest = b""
        self._begun = b""  # the part of the rest that was shown
        self._progress = b""  # the last that was not written
        self._progress_at = -math.inf
        self._after_return = False  # the rest follows a carriage return

    def _take(self, data: bytes) -> None:
        if not data:
            return
        if self._copy is not None:
            self._copy.put(data)
        text = (self._rest + data).replace(b"\r\n", b"\n")
        held = b""
        if text.endswith(b"\r"):  # its line feed may be in the next read
            text, held = text[:-1], b"\r"
        *whole, rest = text.split(b"\n")
        lines = [line for one in whole for line in self._lines_of(one)]
        *progress, rest = rest.split(b"\r")
        shown = self._shown(progress)
        lines += [] if self._in_place else shown
        self._after_return = bool(progress) or (self._after_return and not whole)
        self._rest = rest + held
        if len(self._rest) > _LINE_BYTES_MAX:
            lines.append(self._rest)
            self._rest = b""
        self._write(lines)
        if self._in_place and shown:
            self._write_in_place(shown[-1])
        waits = rest and (self._in_place if self._after_return else self._has_input)
        self.show_at = time.monotonic() + _QUESTION_S if waits else None

    def show(self) -> None:
        """Write what there is of a line that has no end yet."""
        self.show_at = None
        if self._after_return:
            self._write_in_place(self._rest.rstrip(b"\r"))
        elif not self.is_muted:
            is_own = self.target.open_line == (self, False)
            more = self._rest[len(self._begun) :] if is_own else self._prefix + self._rest
            self.target.put_open(self, more)
            self._begun = self._rest

    def end(self) -> None:
        """Write the last line, too, if nothing ended it."""
        super().end()
        rest, self._rest = self._rest.rstrip(b"\r"), b""
        lines = self._lines_of(rest) if rest else [self._progress] if self._progress else []
        self._progress = b""
        self.show_at = None
        self._write(lines)

    def _lines_of(self, line: bytes) -> list[bytes]:
        """Return what to write of a whole line, which may have progress in front."""
        *progress, last = line.split(b"\r")
        lines = self._shown(progress)
        if self._in_place:  # a whole line replaces the progress
            lines = []
            last = last or next((one for one in reversed(progress) if one), self._progress)
        elif not last and self._progress:  # the line feed ends the progress
            last, self._progress = self._progress, b""
        self._progress = b""
        return [*lines, last]

    def _shown(self, progress: list[bytes]) -> list[bytes]:
        """Return what to write of lines that ended in a carriage return."""
        progress = [line for line in progress if line]
        if not progress:
            return []
        self._progress = progress[-1]
        now = time.monotonic()
        if now < self._progress_at + (_PROGRESS_IN_PLACE_S if self._in_place else _PROGRESS_S):
            return []
        self._progress_at = now
        shown, self._progress = self._progress, b""
        return [shown]

    def _write(self, lines: list[bytes]) -> None:
        lines = [kept for line in lines if (kept := _UPWARDS.sub(b"", line)) or not line]
        if self._watch is not None:
            for line in lines:
                self._watch(line)
        if self._hides is not None:
            lines = [line for line in lines if not self._hides(line)]
        if lines and not self.is_muted:
            text = b"".join(self._prefix + line + b"\n" for line in lines)
            continues = self.target.open_line == (self, False) and lines[0].startswith(self._begun)
            begun = len(self._prefix) + len(self._begun) if continues else 0
            self.target.put_lines(text[begun:], continues)
        if lines:
            self._begun = b""

    def _write_in_place(self, progress: bytes) -> None:
        progress = _UPWARDS.sub(b"", progress)
        if self._relays and not self.is_muted:
            self.target.put_lines(self._prefix + progress + b"\r")
        elif not self.is_muted:
            columns = os.get_terminal_size(self.target.descriptor).columns or 80
            room = max(0, columns - 1 - len(_COLOUR.sub(b"", self._prefix)))
            line = self._prefix + progress[:room]
            self.target.put_open(self, line, is_progress=True)


class Outputs:
    """The launcher's own two outputs and the pipes that feed them, as events of a selector.

    The data of its keys in the selector are functions without arguments, to call on an event.
    """

    def __init__(
        self, selector: selectors.BaseSelector, out: int = 1, err: int = 2, relays: bool = False
    ) -> None:
        """`relays`: they lead to the terminal of another launcher."""
        self._selector = selector
        self._relays = relays
        self.err = Output(err)
        # Of one file there is one Output, or it would cut lines of the other in two.
        self.out = self.err if _is_same_file(out, err) else Output(out)
        self._forwarders: list[Forwarder] = []
        self._others: list[Output] = []

    def add(self, output: Output) -> None:
        """Write to one more output what it has pending; nobody waits for its reader."""
        self._others.append(output)

    def close(self, output: Output) -> None:
        """Close an output that was added as soon as nothing is pending."""
        output.is_ending = True
        self._close_ended()

    def _close_ended(self) -> None:
        for output in [one for one in self._others if one.is_ending and not one.is_pending]:
            self._listen(output.descriptor, selectors.EVENT_WRITE, output.write, wanted=False)
            self._others.remove(output)
            os.close(output.descriptor)

    @property
    def is_fed(self) -> bool:
        """Return whether there are pipes that have not ended."""
        return bool(self._forwarders)

    @property
    def is_pending(self) -> bool:
        """Return whether bytes wait for a reader."""
        return self.out.is_pending or self.err.is_pending

    @property
    def error(self) -> OSError | None:
        """Return why an output takes nothing any more."""
        return self.out.error or self.err.error

    def forward(
        self,
        source: int,
        target: Output,
        line_prefix: bytes,
        watch: Callable[[bytes], object] | None = None,
        copy: Output | None = None,
        has_input: bool = False,
        taken_out: Callable[[bytes], bytes] | None = None,
        hides: Callable[[bytes], bool] | None = None,
    ) -> None:
        """Forward the lines of a pipe from now on; the arguments are those of a LineForwarder."""
        self._forwarders.append(
            LineForwarder(
                source, target, line_prefix, watch, copy, has_input, self._relays, taken_out, hides
            )
        )

    def forward_bytes(
        self, source: int, target: Output, taken_out: Callable[[bytes], bytes] | None
    ) -> None:
        """Forward the bytes of a pipe from now on; the arguments are those of a Forwarder."""
        self._forwarders.append(Forwarder(source, target, taken_out))

    @property
    def show_at(self) -> float | None:
        """Return when to call `show`; None: nothing waits for it."""
        times = [one.show_at for one in self._forwarders if one.show_at is not None]
        return min(times) if times else None

    def show(self, now: float) -> None:
        """Write the questions and the progress that have waited long enough for an end of line."""
        for forwarder in self._forwarders:
            if forwarder.show_at is not None and now >= forwarder.show_at:
                forwarder.show()

    def mute(self, sources: Collection[int]) -> None:
        """Write nothing more of what comes from these pipes."""
        for forwarder in self._forwarders:
            forwarder.is_muted = forwarder.is_muted or forwarder.source in sources

    def read_rest(self, source: int) -> None:
        """Forward what a pipe holds now, unless its output is full."""
        for forwarder in [one for one in self._forwarders if one.source == source]:
            room = select.poll()
            room.register(source, select.POLLIN)
            while room.poll(0) and not forwarder.target.is_full:
                if not forwarder.forward():
                    self._forget(forwarder)
                    return

    def listen(self, to_all: bool = False) -> None:
        """Make events of all that can go on; call it before each wait for events.

        Pipes whose output is full have to wait, except when listening `to_all`.
        """
        self._close_ended()
        for output in (self.out, self.err, *self._others):
            # A file that epoll does not take has room always, so that nothing is pending.
            self._listen(output.descriptor, selectors.EVENT_WRITE, output.write, output.is_pending)
        for forwarder in self._forwarders:
            self._listen(
                forwarder.source,
                selectors.EVENT_READ,
                partial(self._on_readable, forwarder),
                to_all or not forwarder.target.is_full,
            )

    def end(self) -> None:
        """Forward what has no end of line, and then no more."""
        for forwarder in self._forwarders:
            forwarder.end()
            self._listen(forwarder.source, selectors.EVENT_READ, forwarder.end, wanted=False)
        self._forwarders.clear()
        for output in (self.out, self.err):
            output.end_line()

    def _on_readable(self, forwarder: Forwarder) -> None:
        # Another event of the same batch may have read it to its end.
        if forwarder in self._forwarders and not forwarder.forward():
            self._forget(forwarder)

    def _forget(self, forwarder: Forwarder) -> None:
        self._listen(forwarder.source, selectors.EVENT_READ, forwarder.end, wanted=False)
        self._forwarders.remove(forwarder)

    def _listen(self, descriptor: int, events: int, call: Callable[[], None], wanted: bool) -> None:
        listening = descriptor in self._selector.get_map()
        if wanted and not listening:
            self._selector.register(descriptor, events, call)
        elif listening and not wanted:
            self._selector.unregister(descriptor)


def _is_same_file(first: int, second: int) -> bool:
    with contextlib.suppress(OSError):  # one that is closed
        return os.path.sameopenfile(first, second)
    return False
