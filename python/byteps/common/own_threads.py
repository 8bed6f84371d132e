"""The threads that this package starts, known by their names."""

from __future__ import annotations

import threading

_PREFIX = "byteps-"
OPENS_SESSION = "byteps-open"
ANSWERS_STACKS = "byteps-stack"


def is_own(thread: threading.Thread) -> bool:
    """Return whether this package has started the thread."""
    return thread.name.startswith(_PREFIX)


def answers_stacks(thread: threading.Thread) -> bool:
    """Return whether it is the thread behind `bps stack`, which never starts an operation."""
    return thread.name == ANSWERS_STACKS
