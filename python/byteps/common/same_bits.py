"""What the bits of sums depend on."""

from __future__ import annotations

from dataclasses import dataclass

# The numbers of byteps_sum_bits in include/byteps/sums.h.
_ON_NOTHING_ELSE, _ON_MACHINES = 0, 1


@dataclass(frozen=True)
class SameBits:
    """Which sums of a job have the same bits on every layout of its ranks over machines and
    servers. True where all of them have.

    Example::

        assert bps.same_bits().floats, bps.same_bits().reason
    """

    floats: bool
    """Sums of float32 and float64."""
    halves: bool
    """Sums of float16 and bfloat16."""
    reason: str
    """A sentence for people, with what to do where the bits depend on more."""

    def __bool__(self) -> bool:
        """Return whether all sums have the same bits on every layout."""
        return self.floats and self.halves

    @classmethod
    def of(cls, depends_on: int, reason: str) -> SameBits:
        """Make it from what the library says."""
        return cls(depends_on <= _ON_MACHINES, depends_on == _ON_NOTHING_ELSE, reason)
