"""Handles: what asynchronous operations return."""

from __future__ import annotations

from typing import Any, overload

from byteps.common.session import default
from byteps.common.session.pending import Handle, Result


def poll(handle: int) -> bool:
    """Return whether `synchronize(handle)` would not block.

    Example::

        while not bps.poll(handle):
            do_something_else()
    """
    return default.pending().poll(handle)


def members_of(handle: int) -> list[int]:
    """Return the ranks whose contributions are in every part of the result of a complete operation;
    none when it failed. Handles have them as `handle.members` too.

    Example::

        bps.synchronize(handle)
        assert bps.members_of(handle) == bps.members()
    """
    return default.pending().members_of(handle)


@overload
def synchronize(handle: Handle[Result]) -> Result: ...


@overload
def synchronize(handle: int) -> Any: ...


def synchronize(handle: int) -> Any:
    """Block until the operation is over; return its result, or raise why it failed.

    A handle that this process does not know gives None.

    Example::

        mean = bps.synchronize(bps.allreduce_async(array, name="loss"))
    """
    return default.pending().synchronize(handle)
