"""How the workers of a job are spread over its machines, for those that start them.

The library has the same from the same variables (src/base/machine_layout.h).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from byteps.common.errors import InvalidArgumentError

LOCAL_SIZE_VARIABLE = "BYTEPS_LOCAL_SIZE"
LOCAL_SIZES_VARIABLE = "BYTEPS_LOCAL_SIZES"
# As the library's options have them (src/config/option_rows.cc).
LOCAL_SIZE_MAX = 1024
MACHINES_MAX = 65536


@dataclass(frozen=True)
class Layout:
    """The number of workers of each machine. The first machine has the first ranks, and so on."""

    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        """Return the number of workers."""
        return sum(self.sizes)

    @property
    def machines(self) -> int:
        """Return the number of machines."""
        return len(self.sizes)

    @property
    def is_equal(self) -> bool:
        """Return whether all machines have the same number of workers."""
        return len(set(self.sizes)) == 1

    def first_rank(self, machine: int) -> int:
        """Return the rank of a machine's first worker."""
        return sum(self.sizes[:machine])

    def places(self) -> list[tuple[int, int]]:
        """Return machine and local rank of each rank."""
        return [(machine, local) for machine, n in enumerate(self.sizes) for local in range(n)]

    def places_in_turn(self) -> list[tuple[int, int]]:
        """Return the same of ranks that are dealt to the machines in turn, until each is full."""
        return sorted(self.places(), key=lambda place: (place[1], place[0]))

    def variables(self) -> dict[str, str]:
        """Return what all processes of the job are told."""
        told = {"DMLC_NUM_WORKER": str(self.machines)}
        if self.is_equal:
            return {**told, LOCAL_SIZE_VARIABLE: str(self.sizes[0])}
        return {**told, LOCAL_SIZES_VARIABLE: ",".join(map(str, self.sizes))}


def read_sizes(text: str) -> tuple[int, ...] | None:
    """Return the numbers of a list such as `2,1`; None if the library would not take it."""
    words = [word.strip() for word in text.strip().removesuffix(",").split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) <= 9 for word in words):
        return None
    sizes = tuple(int(word) for word in words)
    fits = all(1 <= size <= LOCAL_SIZE_MAX for size in sizes) and len(sizes) <= MACHINES_MAX
    return sizes if fits else None


def told_sizes(environment: Mapping[str, str]) -> tuple[int, ...] | None:
    """Return the list that somebody has set; None: nobody has. Raises InvalidArgumentError."""
    text = environment.get(LOCAL_SIZES_VARIABLE, "").strip()
    if not text:
        return None
    sizes = read_sizes(text)
    if sizes is None:
        raise InvalidArgumentError(
            f"{LOCAL_SIZES_VARIABLE} is {text!r}; it must be numbers from 1 to {LOCAL_SIZE_MAX}, "
            "separated by commas, one for each machine."
        )
    return sizes
