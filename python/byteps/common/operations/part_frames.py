"""Several tensors as one row of bytes: how many rows each has on this rank, then their rows."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple


class Part(NamedTuple):
    """One rank's rows of one tensor, as a place in the bytes of all ranks."""

    begin: int
    end: int
    rows: int


def heads(rows: Sequence[int]) -> bytes:
    """Return what a rank sends ahead of the rows of its tensors, which have so many each."""
    return struct.pack(f"<{len(rows)}q", *rows)


def parts_of(received: memoryview, row_bytes: Sequence[int]) -> list[list[Part]]:
    """Return, for each tensor, the parts of the ranks that have sent something, in their order.

    `row_bytes` says how long a row of each tensor is, which is the same on all ranks.
    """
    found: list[list[Part]] = [[] for _ in row_bytes]
    at, length = 0, 8 * len(row_bytes)
    while at < len(received):
        counts = struct.unpack(f"<{len(row_bytes)}q", received[at : at + length])
        at += length
        for parts, rows, size in zip(found, counts, row_bytes, strict=True):
            parts.append(Part(at, at + rows * size, rows))
            at += rows * size
    return found
