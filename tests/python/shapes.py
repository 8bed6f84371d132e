"""What a test repeats: usual shapes of jobs, or all of them with TEST_FULL=1 (lane `matrix`)."""

from __future__ import annotations

import os

import pytest

FULL = os.environ.get("TEST_FULL") == "1"
ALL = [(workers, servers) for workers in range(1, 5) for servers in range(1, 4)]
SOME = [(3, 2), (4, 1)]


def shapes(*usual: tuple[int, int]) -> pytest.MarkDecorator:
    """Run a test with these numbers of workers and servers."""
    return pytest.mark.parametrize(("workers", "servers"), ALL if FULL else usual)


def some_shapes(*usual: tuple[int, int]) -> pytest.MarkDecorator:
    """Run a test whose ranks compile for long with these numbers of workers and servers."""
    chosen = dict.fromkeys([*usual, *SOME * FULL])
    return pytest.mark.parametrize(("workers", "servers"), list(chosen))
