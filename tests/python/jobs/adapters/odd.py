"""What the checks of odd tensors share: sizes that fill no block of memory, and none at all, with
the results that operations of all ranks must have."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from byteps.common.operations.splits import rows_of

# Below and above the size from which adapters share memory with a framework.
SHAPES = ((17,), (5001,), (3, 5), (701, 3), (0,), (0, 3))
KINDS = ("uint8", "float16", "float32", "int64")


@dataclass
class Case:
    """Arrays of all ranks, whose sums all kinds can hold."""

    rank: int
    size: int
    shape: tuple[int, ...]
    kind: str
    parts: list[np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        count = int(np.prod(self.shape))
        self.parts = [
            (np.arange(count) * (rank + 2) % 5).reshape(self.shape).astype(self.kind)
            for rank in range(self.size)
        ]

    @property
    def mine(self) -> np.ndarray:
        """This rank's array, in memory that begins at no multiple of any block."""
        part = self.parts[self.rank]
        memory = np.empty(part.size + 1, part.dtype)[1:].reshape(part.shape)
        memory[...] = part
        return memory

    @property
    def total(self) -> np.ndarray:
        return sum(self.parts[1:], start=self.parts[0].copy())

    @property
    def joined(self) -> np.ndarray:
        return np.concatenate(self.parts)

    @property
    def splits(self) -> list[int]:
        """How rows are dealt: the first ranks have one more."""
        return [rows_of(rank, self.size, self.shape[0]) for rank in range(self.size)]

    def _dealt(self, array: np.ndarray) -> np.ndarray:
        ends = list(itertools.accumulate(self.splits))
        return array[ends[self.rank] - self.splits[self.rank] : ends[self.rank]]

    @property
    def own_rows_of_total(self) -> np.ndarray:
        return self._dealt(self.total)

    @property
    def received(self) -> np.ndarray:
        """What an alltoall with `splits` brings."""
        return np.concatenate([self._dealt(part) for part in self.parts])

    @property
    def is_floating(self) -> bool:
        return self.kind.startswith("float")

    def __str__(self) -> str:
        return f"{self.kind}{list(self.shape)}"


def cases(
    rank: int, size: int, shapes: Sequence[tuple[int, ...]] = SHAPES, kinds: Sequence[str] = KINDS
) -> Iterator[Case]:
    for shape in shapes:
        for kind in kinds:
            yield Case(rank, size, shape, kind)
