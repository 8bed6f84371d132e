"""Bytes of all ranks, without a tensor: what objects, digests and short questions travel as."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from byteps.common.errors import InvalidArgumentError, PeerLostError
from byteps.common.operations.call import Call, start
from byteps.common.request import NAME_PREFIX
from byteps.common.session import default
from byteps.common.session.flight import Flight
from byteps.common.session.pending import Handle
from byteps.common.types import DataType


@dataclass(slots=True)
class ByteRows:
    """What an allgather of bytes has brought."""

    joined: bytearray
    counts: list[int]  # the bytes of each rank; none of one that was lost
    ranks: list[int]  # who took part

    def of_ranks(self) -> list[bytes]:
        """Return the bytes of each rank that sent some, in the order of ranks."""
        parts, at = [], 0
        for count in self.counts:
            if count:
                parts.append(bytes(self.joined[at : at + count]))
            at += count
        return parts


def start_gather(
    call: Call, own: bytes | bytearray, then: Callable[[ByteRows], Any] | None = None
) -> Handle[Any]:
    """Start an allgather of bytes, of which each rank may have another number. `then` makes the
    result."""
    memory = bytearray(own)

    def finish(flight: Flight) -> object:
        size_bytes, _ = flight.rows()
        joined = bytearray(size_bytes)
        flight.copy_rows(address_of(joined), size_bytes)
        rows = ByteRows(joined, flight.rows_of_ranks(), flight.members())
        return rows if then is None else then(rows)

    source = address_of(memory)
    return start(call, "cpu", DataType.UINT8, (len(memory),), source, 0, finish, memory)


def gather(call: Call, own: bytes | bytearray) -> ByteRows:
    """Do `start_gather`, and wait for it."""
    rows: ByteRows = default.pending().synchronize(start_gather(call, own))
    return rows


def start_combining(call: Call, numbers: Sequence[int]) -> Handle[list[int]]:
    """Start to combine numbers from 0 to 255 over all ranks, one by one."""
    memory = bytearray(numbers)
    place = address_of(memory)
    shape = (len(memory),)
    return start(call, "cpu", DataType.UINT8, shape, place, place, lambda _: list(memory), memory)


def bytes_of_root(call: Call, own: bytes | None, root_rank: int) -> bytearray:
    """Return the root's bytes on every rank; others than the root have no `own`.

    REQUIRES: `call` is an allgather. The root's bytes are the only rows, so that no rank has to
    know their number beforehand; then it is no error of an allgather that there are none.
    """
    handle = start_gather(call, b"" if own is None else own)
    received: ByteRows = default.pending().synchronize(handle)
    if root_rank in handle.members:
        return received.joined
    what = f"broadcast '{NAME_PREFIX}{handle.name}': rank {root_rank}"
    if root_rank in default.members():
        raise InvalidArgumentError(
            f"{what} has joined: it has no more data; a rank that has joined cannot be the root"
        )
    raise PeerLostError(
        f"{what} was lost before all of its part had arrived; repeat the operation without it"
    )


def address_of(memory: bytearray) -> int:
    """Return where bytes are, which must not change their number; 0 for none."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory)) if memory else 0


def bytes_at(pointer: int, size_bytes: int) -> memoryview:
    """Return the memory at an address, which must stay valid."""
    return memoryview((ctypes.c_char * size_bytes).from_address(pointer)).cast("B")
