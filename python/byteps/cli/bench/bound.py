"""The least time of an exchange: what the memory of a machine and its links allow.

Each worker's tensor lies in memory of its own. So the worker reads each byte of it once and writes
each byte of the sum once, as a copy does; all workers of a machine do it at the same time. Between
machines each byte also crosses links; docs/decisions/0004-placement.md has the least number of
bytes.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence

from byteps.cli.bench.link import Link

# Below this size the time is that of wake-ups, and a share of the bandwidth says nothing.
MEANINGFUL_BYTES = 1 << 20
_HALVINGS = 60


class Copy:
    """Memory of one worker for a copy of a tensor."""

    def __init__(self, nbytes: int) -> None:
        # Memory that nobody shares, as tensors of programs have it.
        self._maps = [mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE) for _ in range(2)]
        self._places = [ctypes.addressof(ctypes.c_char.from_buffer(one)) for one in self._maps]
        self._nbytes = nbytes
        for place in self._places:
            ctypes.memset(place, 1, nbytes)

    def make(self) -> None:
        """Copy the tensor with memcpy."""
        ctypes.memmove(self._places[0], self._places[1], self._nbytes)


def link_loads(workers: Sequence[int], servers: Sequence[int]) -> float:
    """Return how many times its tensor the busiest machine sends and receives at least.

    Machine i has `workers[i]` workers, which sum first, and `servers[i]` servers; all links are
    equally fast. A machine sends its sum to the others' servers, and the answers of its own servers
    to the other machines.
    """
    machines = sum(1 for count in workers if count)
    mine = [1 if count else 0 for count in workers]
    bases = [(one, machines - 2 * one) for one, count in zip(mine, servers, strict=True) if count]
    if not bases or any(slope < 0 for _, slope in bases):
        return 0.0  # one machine, which does all by itself
    if any(slope == 0 for _, slope in bases):
        return 1.0  # two machines: each sends its tensor once, however the servers share the work
    low, high = 0.0, 2.0 * machines
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        room = sum(max(0.0, (middle - base) / slope) for base, slope in bases)
        low, high = (low, middle) if room >= 1 else (middle, high)
    return max(1.0, high)


def least_seconds(nbytes: int, copy_s: float, loads: float, link: Link | None) -> float:
    """Return the least time of an exchange of so many bytes."""
    if link is None or not loads:
        return copy_s
    return max(copy_s, link.round_trip_s + loads * nbytes / link.bytes_per_s)
