"""What an operation is to the native session: addresses, and what ranks must agree about."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from byteps.common.devices import DevicePlace
from byteps.common.types import DataType, Operation

NAME_PREFIX = "byteps."
_DETAIL_MAX = 1024  # bytes that the job takes

Arguments = tuple[
    str,
    int,
    int,
    Sequence[int],
    int,
    int,
    int,
    int,
    int,
    int,
    str,
    "Sequence[int] | None",
    bool,
    int,
    "int | None",
    int,
]


@dataclass(slots=True)
class Request:
    """An operation in terms of addresses; the memory stays valid until it is complete."""

    name: str
    operation: Operation
    dtype: DataType
    shape: Sequence[int]
    input_pointer: int
    output_pointer: int
    root_rank: int = 0
    priority: int = 0
    combine: Operation = Operation.SUM  # of a reducescatter
    process_set: int = 0  # its number
    detail: str = ""  # what else must be equal on all ranks, in words
    splits: Sequence[int] | None = None  # of an alltoall: the rows for each rank
    atomic: bool = False  # one set of contributions for the whole tensor
    limit_s: float = 0  # of its own, if the user has set none for all operations
    place: DevicePlace | None = None  # of the memory; None: the host's

    def describe(self) -> str:
        """Return what must be equal on all ranks, in words."""
        text = f"{self.operation.name.lower()} of {self.dtype.name.lower()}{list(self.shape)}"
        if self.process_set:
            text += f" in process set {self.process_set}"
        return f"{text}; {self.detail}" if self.detail else text

    def arguments(self) -> Arguments:
        """Return what the library takes for it."""
        self.detail = shortened(self.detail)
        return (
            NAME_PREFIX + self.name,
            int(self.operation),
            int(self.dtype),
            self.shape,
            self.input_pointer,
            self.output_pointer,
            self.root_rank,
            self.priority,
            int(self.combine),
            self.process_set,
            self.detail,
            self.splits,
            self.atomic,
            int(1000 * self.limit_s),
            None if self.place is None else self.place.device,
            0 if self.place is None else self.place.stream,
        )


def shortened(detail: str) -> str:
    """Return a text that the job takes: of a long one begin, end, and a sum of the whole."""
    if not detail.isascii():
        detail = detail.encode("ascii", "backslashreplace").decode()
    if len(detail) <= _DETAIL_MAX:
        return detail
    half = _DETAIL_MAX // 2 - 40
    total = f"{len(detail)} characters with the sum {zlib.crc32(detail.encode()):08x}"
    return f"{detail[:half]} ... ({total}) ... {detail[-half:]}"
