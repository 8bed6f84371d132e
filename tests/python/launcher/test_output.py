"""Output as whole lines."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import selectors
import struct
import tempfile
import termios
import types
from pathlib import Path

import pytest

from byteps.cli import output as output_module
from byteps.cli.lost_processes import describe_status
from byteps.cli.output import (
    LineForwarder,
    Output,
    Outputs,
    may_read_input,
    prefix,
    use_colour,
)


@pytest.fixture(autouse=True)
def clock(monkeypatch) -> list[float]:
    """The time of what is tested. It stands still unless a test moves it."""
    now = [1000.0]
    monkeypatch.setattr(output_module, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    return now


def forwarded(*chunks: bytes) -> bytes:
    """Return what a forwarder writes when the pipe delivers these chunks."""
    source, feed = os.pipe()
    with tempfile.TemporaryFile() as target:
        forwarder = LineForwarder(source, Output(target.fileno()), b"> ")
        for chunk in chunks:
            os.write(feed, chunk)
            assert forwarder.forward()
        os.close(feed)
        assert not forwarder.forward()
        os.close(source)
        target.seek(0)
        return target.read()


def test_lines_are_written_when_whole() -> None:
    assert forwarded(b"a\nb", b"c\n", b"\n") == b"> a\n> bc\n> \n"


def test_the_last_line_needs_no_end() -> None:
    assert forwarded(b"a\nb") == b"> a\n> b\n"


def test_carriage_returns_end_lines_and_pairs_count_once() -> None:
    assert forwarded(b"10%\r20%\r", b"\nnext\r\n", b"30%\r") == b"> 10%\n> 20%\n> next\n> 30%\n"


def test_bars_below_each_other_leave_no_codes_of_a_terminal() -> None:
    bars = b"outer 1%\n\rinner 5%\x1b[A\router 2%\n\rinner 9%\x1b[A\n"
    shown = forwarded(bars, b"\n", b"\x1b[2A\n", b"end\n")
    assert b"\x1b" not in shown
    assert shown.startswith(b"> outer 1%\n")
    assert shown.endswith(b"> inner 9%\n> \n> end\n")


def test_of_a_progress_bar_one_line_in_a_second_is_written_and_the_last() -> None:
    bar = [f"{i}%\r".encode() for i in range(100)]
    assert forwarded(b"begin\n", *bar, b"\n", b"end\n") == b"> begin\n> 0%\n> 99%\n> end\n"
    assert forwarded(*bar) == b"> 0%\n> 99%\n"
    assert forwarded(b"".join(bar) + b"100%\nend\n") == b"> 99%\n> 100%\n> end\n"


def test_a_second_later_the_next_line_of_a_progress_bar_is_written(clock) -> None:
    source, feed = os.pipe()
    with unread("pipe") as (reader, writer):
        forwarder = LineForwarder(source, Output(writer), b"> ")
        # What a read ends with is known at the next one: a line feed could follow.
        for moment, percent in ((0.0, 1), (0.0, 2), (0.9, 3), (1.1, 4), (1.2, 5)):
            clock[0] = 1000.0 + moment
            os.write(feed, b"%d%%\r" % percent)
            assert forwarder.forward()
        assert os.read(reader, 1 << 16) == b"> 1%\n> 3%\n"
    os.close(feed)
    os.close(source)


def test_a_line_without_end_is_bounded() -> None:
    chunk = b"x" * (1 << 16)
    assert forwarded(*[chunk] * 20).count(b"> ") == 2


@contextlib.contextmanager
def unread(kind: str):
    """Yield an end to read from and one to write to; nobody reads unless the test does."""
    reader, writer = os.openpty() if kind == "terminal" else os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, kind != "pipe that does not block")
    yield reader, writer
    for descriptor in (reader, writer):
        with contextlib.suppress(OSError):
            os.close(descriptor)


@pytest.mark.parametrize("kind", ["pipe", "pipe that does not block", "terminal"])
def test_a_reader_that_has_paused_gets_all_in_order_later_and_stops_nobody(kind) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(150_000))
    with unread(kind) as (reader, writer):
        output = Output(writer)
        output.put(lines[:600_000])  # a write that blocked would never return
        assert output.is_pending
        assert not output.is_full
        output.put(lines[600_000:])
        assert output.is_full
        received = b""
        while received.count(b"\n") < 150_000:
            with contextlib.suppress(BlockingIOError):
                received += os.read(reader, 1 << 16)
            output.write()
        assert received.replace(b"\r\n", b"\n").splitlines() == lines.splitlines()
        assert not output.is_pending


def test_a_reader_that_is_gone_is_an_error_once_and_then_nothing_is_kept() -> None:
    with unread("pipe") as (reader, writer):
        output = Output(writer)
        output.put(b"x" * 1_000_000)
        os.close(reader)
        output.write()
        assert output.error is not None
        assert output.error.errno == errno.EPIPE
        output.put(b"more")
        assert not output.is_pending


def test_a_full_disk_is_an_error() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        output = Output(full.fileno())
        output.put(b"text")
        assert output.error is not None
        assert output.error.errno == errno.ENOSPC


def test_two_descriptors_of_one_file_are_one_output() -> None:
    with unread("pipe") as (_, writer), selectors.DefaultSelector() as selector:
        second = os.dup(writer)
        outputs = Outputs(selector, writer, second)
        assert outputs.out is outputs.err
        os.close(second)


def test_pipes_wait_while_their_output_is_full() -> None:
    with (
        unread("pipe") as (reader, writer),
        unread("pipe") as (source, feed),
        Path(os.devnull).open("wb") as null,
        selectors.DefaultSelector() as selector,
    ):
        outputs = Outputs(selector, writer, null.fileno())
        outputs.forward(source, outputs.out, b"> ")

        def listened_to() -> set[object]:
            outputs.listen()
            return {key.fileobj for key in selector.get_map().values()}

        assert listened_to() == {source}
        outputs.out.put(b"x" * 2_000_000)
        assert listened_to() == {writer}
        os.write(feed, b"line\n")
        received = b""
        while not received.endswith(b"> line\n"):
            with contextlib.suppress(BlockingIOError):
                received += os.read(reader, 1 << 16)
            assert not outputs.out.is_full or listened_to() == {writer}
            listened_to()
            for key, _ in selector.select(0):
                key.data()
        assert received == b"x" * 2_000_000 + b"> line\n"
        assert listened_to() == {source}


def test_colour_on_terminals_only() -> None:
    primary, secondary = os.openpty()
    assert use_colour(secondary, {})
    assert not use_colour(secondary, {"NO_COLOR": "1"})
    reader, writer = os.pipe()
    assert not use_colour(writer, {})
    for descriptor in (primary, secondary, reader, writer):
        os.close(descriptor)
    assert prefix("worker 1", 0, coloured=False) == b"[worker 1] "
    assert prefix("worker 1", 1, coloured=True) == b"\x1b[32m[worker 1]\x1b[0m "
    assert prefix("worker 7", 7, coloured=True) == b"\x1b[32m[worker 7]\x1b[0m "


@pytest.mark.parametrize(
    ("is_terminal", "foreground", "may"),
    [(False, 9, True), (True, 5, True), (True, 9, False), (True, None, True)],
)
def test_a_launcher_in_the_background_leaves_the_terminal_alone(
    monkeypatch, is_terminal, foreground, may
) -> None:
    def group_of_terminal(descriptor: int) -> int:
        if foreground is None:
            raise OSError(errno.ENOTTY, "the terminal of another session")
        return foreground

    monkeypatch.setattr(os, "isatty", lambda descriptor: is_terminal)
    monkeypatch.setattr(os, "tcgetpgrp", group_of_terminal)
    monkeypatch.setattr(os, "getpgrp", lambda: 5)
    assert may_read_input() is may


def test_ends_are_described() -> None:
    assert describe_status("worker 1", -9) == "worker 1 was killed by signal 9 (SIGKILL)"
    assert describe_status("server 0", 3) == "server 0 ended with exit code 3"
    assert describe_status("server 0", -63) == "server 0 was killed by signal 63"


def on_a_terminal(*chunks: bytes, has_input: bool = False) -> bytes:
    """Return what a terminal gets of these chunks, each shown as far as it is unfinished."""
    source, feed = os.pipe()
    with unread("terminal") as (reader, writer):
        output = Output(writer)
        forwarder = LineForwarder(source, output, b"> ", has_input=has_input)
        for chunk in chunks:
            os.write(feed, chunk)
            assert forwarder.forward()
            if forwarder.show_at is not None:
                forwarder.show()
        os.close(feed)
        assert not forwarder.forward()
        output.end_line()
        os.close(source)
        output.put(b"over\n")
        return read_until(reader, b"over\r\n").removesuffix(b"over\r\n")


def read_until(terminal: int, end: bytes) -> bytes:
    """Return what has come, up to an end. A terminal delivers when it sees fit."""
    os.set_blocking(terminal, True)
    received = b""
    while not received.endswith(end):
        received += os.read(terminal, 1 << 16)
    return received


def test_progress_stays_in_its_place_on_a_terminal() -> None:
    clear = b"\r\x1b[K"
    shown = on_a_terminal(b"\r1%", b"\r2%", b"\n", b"end\n").split(clear)
    assert shown[0] == b"> 1%"
    assert shown[-2:] == [b"> 2%", b"> 2%\r\n> end\r\n"]


def test_a_question_is_shown_and_its_line_goes_on() -> None:
    assert on_a_terminal(b"(Pdb) ", b"42\n(Pdb) ", has_input=True) == (
        b"> (Pdb) 42\r\n> (Pdb) \r\n"
    )
    assert on_a_terminal(b"begin", b" end\n") == b"> begin end\r\n"


def test_lines_of_others_end_an_open_line() -> None:
    with unread("pipe") as (reader, writer):
        output = Output(writer)
        first, second = object(), object()
        output.put_open(first, b"question ")
        output.put_lines(b"line\n")
        output.put_open(second, b"1%", is_progress=True)
        output.put_lines(b"line\n")
        assert os.read(reader, 1 << 16) == b"question \nline\n1%\r\x1b[Kline\n"


def test_every_line_is_watched_and_every_byte_copied() -> None:
    seen: list[bytes] = []
    source, feed = os.pipe()
    with tempfile.TemporaryFile() as target, tempfile.TemporaryFile() as copy:
        to_copy = Output(copy.fileno())
        forwarder = LineForwarder(source, Output(target.fileno()), b"> ", seen.append, to_copy)
        for chunk in (b"a\r\nb", b"c\rd\n", b"rest"):
            os.write(feed, chunk)
            forwarder.forward()
        forwarder.is_muted = True
        os.close(feed)
        assert not forwarder.forward()
        os.close(source)
        for file in (target, copy):
            file.seek(0)
        assert target.read() == b"> a\n> bc\n> d\n"
        assert copy.read() == b"a\r\nbc\rd\nrest"
    assert seen == [b"a", b"bc", b"d", b"rest"], "also what is muted"


def test_a_muted_process_shows_neither_questions_nor_progress() -> None:
    source, feed = os.pipe()
    with unread("terminal") as (reader, writer):
        output = Output(writer)
        forwarder = LineForwarder(source, output, b"> ", has_input=True)
        forwarder.is_muted = True
        for chunk in (b"question? ", b"\r5%", b"\r6%\r"):
            os.write(feed, chunk)
            assert forwarder.forward()
            forwarder.show()
        output.put(b"over\n")
        assert read_until(reader, b"over\r\n") == b"over\r\n"
    os.close(feed)
    os.close(source)


def test_progress_is_no_wider_than_the_terminal() -> None:
    source, feed = os.pipe()
    with unread("terminal") as (reader, writer):
        fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("4H", 10, 12, 0, 0))
        coloured = prefix("a", 0, coloured=True)
        output = Output(writer)
        forwarder = LineForwarder(source, output, coloured)
        os.write(feed, b"\r0123456789abc")
        assert forwarder.forward()
        forwarder.show()
        output.put(b"|")
        assert read_until(reader, b"|") == coloured + b"0123456|"
    os.close(feed)
    os.close(source)


def test_only_progress_and_questions_wait_to_be_shown() -> None:
    source, feed = os.pipe()
    with unread("pipe") as (_, writer):
        for has_input, chunk, waits in (
            (False, b"question? ", False),
            (True, b"question? ", True),
            (True, b"line\n", False),
            (True, b"1%\r2%", False),  # progress, which a pipe gets as lines
        ):
            forwarder = LineForwarder(source, Output(writer), b"> ", has_input=has_input)
            os.write(feed, chunk)
            assert forwarder.forward()
            assert (forwarder.show_at is not None) == waits, chunk
    os.close(feed)
    os.close(source)


def test_the_terminal_of_another_launcher_gets_progress_with_its_return() -> None:
    source, feed = os.pipe()
    with unread("pipe") as (reader, writer):
        forwarder = LineForwarder(source, Output(writer), b"> ", relays=True)
        for chunk in (b"1%\r", b"2%\r", b"done\n"):
            os.write(feed, chunk)
            assert forwarder.forward()
        assert os.read(reader, 1 << 16) == b"> 1%\r> done\n"
    os.close(feed)
    os.close(source)


def test_the_rest_of_a_pipe_is_read_unless_its_output_is_full() -> None:
    with (
        unread("pipe") as (reader, writer),
        unread("pipe") as (source, feed),
        unread("pipe") as (other, other_feed),
        Path(os.devnull).open("wb") as null,
        selectors.DefaultSelector() as selector,
    ):
        outputs = Outputs(selector, writer, null.fileno())
        for pipe in (source, other):
            outputs.forward(pipe, outputs.out, b"> ")
        os.write(feed, b"line\nrest")
        os.write(other_feed, b"of another\n")
        outputs.listen()
        outputs.read_rest(source)
        assert os.read(reader, 1 << 16) == b"> line\n"
        assert outputs.is_fed
        os.close(feed)
        outputs.read_rest(source)
        assert os.read(reader, 1 << 16) == b"> rest\n", "it has ended"
        assert {key.fileobj for key in selector.get_map().values()} == {other}
        outputs.out.put(b"x" * 2_000_000)
        outputs.read_rest(other)
        assert os.read(other, 1 << 16) == b"of another\n", "it is still there"
        outputs.end()
        assert not outputs.is_fed
        assert not selector.get_map()


def test_an_output_that_was_added_is_closed_when_all_is_written() -> None:
    with (
        unread("pipe") as (reader, writer),
        Path(os.devnull).open("wb") as null,
        selectors.DefaultSelector() as selector,
    ):
        outputs = Outputs(selector, null.fileno(), null.fileno())
        added = Output(os.dup(writer))
        outputs.add(added)
        added.put(b"x" * 500_000)
        outputs.close(added)
        os.fstat(added.descriptor)  # not yet
        received = 0
        while received < 500_000:
            with contextlib.suppress(BlockingIOError):
                received += len(os.read(reader, 1 << 16))
            outputs.listen()
            for key, _ in selector.select(0):
                key.data()
        outputs.listen()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(added.descriptor)
        assert not selector.get_map()
        assert not outputs.is_pending


def test_whoever_is_muted_stays_so() -> None:
    with unread("pipe") as (reader, writer), selectors.DefaultSelector() as selector:
        outputs = Outputs(selector, writer, writer)
        pipes = [os.pipe() for _ in range(3)]
        for source, _ in pipes:
            outputs.forward(source, outputs.out, b"> ")
        outputs.mute([pipes[0][0]])
        outputs.mute([pipes[1][0]])
        for number, (source, feed) in enumerate(pipes):
            os.write(feed, b"%d\n" % number)
            outputs.read_rest(source)
        assert os.read(reader, 1 << 16) == b"> 2\n"
        outputs.end()
        for ends in pipes:
            for descriptor in ends:
                os.close(descriptor)
