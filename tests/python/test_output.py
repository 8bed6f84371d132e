"""Output as whole lines."""

from __future__ import annotations

import os
import tempfile

import pytest

from byteps.cli.losses import describe_status
from byteps.cli.output import LineForwarder, OutputClosedError, prefix, use_colour, write_all


def forwarded(*chunks: bytes) -> bytes:
    """Return what a forwarder writes when the pipe delivers these chunks."""
    source, feed = os.pipe()
    with tempfile.TemporaryFile() as target:
        forwarder = LineForwarder(source, target.fileno(), b"> ")
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


def test_a_line_without_end_is_bounded() -> None:
    chunk = b"x" * (1 << 16)
    assert forwarded(*[chunk] * 20).count(b"> ") == 2


def test_a_closed_target_is_an_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with pytest.raises(OutputClosedError):
        write_all(writer, b"text")
    os.close(writer)


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
