"""Jobs of different shapes: the usual ones of a test, or all of them with TEST_FULL=1."""

from __future__ import annotations

import os

import pytest

FULL = os.environ.get("TEST_FULL") == "1"
ALL = [(workers, servers) for workers in range(1, 5) for servers in range(1, 4)]


def shapes(*usual: tuple[int, int]) -> pytest.MarkDecorator:
    """Run a test with these numbers of workers and servers."""
    return pytest.mark.parametrize(("workers", "servers"), ALL if FULL else usual)
