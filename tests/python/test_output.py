"""Output as whole lines."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import tempfile
from pathlib import Path

import pytest

from byteps.cli.lost_processes import describe_status
from byteps.cli.output import LineForwarder, Output, Outputs, prefix, use_colour


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


def test_of_a_progress_bar_one_line_in_a_second_is_written_and_the_last() -> None:
    bar = [f"{i}%\r".encode() for i in range(100)]
    assert forwarded(b"begin\n", *bar, b"\n", b"end\n") == b"> begin\n> 0%\n> 99%\n> end\n"
    assert forwarded(*bar) == b"> 0%\n> 99%\n"
    assert forwarded(b"".join(bar) + b"100%\nend\n") == b"> 99%\n> 100%\n> end\n"


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
    assert b"[worker 1]" in prefix("worker 1", 0, coloured=True)


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
        os.set_blocking(reader, True)
        received = b""
        while not received.endswith(b"over\r\n"):
            received += os.read(reader, 1 << 16)
        return received.removesuffix(b"over\r\n")


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
