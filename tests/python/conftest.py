"""What the tests share."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

from rank_programs import ROOMS  # noqa: E402
from shapes import FULL  # noqa: E402

sys.path.extend(str(room) for room in ROOMS)

# XLA optimizes a program of JAX longer than a test runs it. With TEST_FULL=1 it does.
if not FULL:
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

# Whoever runs the tests in the background has Ctrl-C ignored, and programs inherit that: those that
# are started here shall react to it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "engine(*names): a test of the lane `engines`; engines.py has the names"
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test if a program that it needs is missing."""
    import engines

    for mark in item.iter_markers("engine"):
        for reason in filter(None, map(engines.why_not, mark.args)):
            pytest.skip(reason)


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Put a native module of pure Python in place of the real one: one process posing as two."""
    import fake_core

    import byteps
    from byteps.common.session import default

    world = fake_core.World(size=2)
    monkeypatch.setitem(sys.modules, "byteps._core", world)  # type: ignore[arg-type]
    monkeypatch.setattr(byteps, "_core", world, raising=False)
    yield world
    default.shutdown()


@pytest.fixture
def initialized(core: object) -> None:
    """byteps.torch has been initialized upon the native module of pure Python."""
    import byteps.torch as bps

    bps.init()


@pytest.fixture
def model():
    """A small model of torch, the same each time."""
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
