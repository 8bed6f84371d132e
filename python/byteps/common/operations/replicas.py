"""Whether the ranks have equal weights."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from byteps.common.errors import ReplicasDifferError
from byteps.common.operations.byte_rows import bytes_at, gather
from byteps.common.operations.call import Call
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation

_DIGEST_BYTES = 8


def digest(dtype: str, pointer: int, size_bytes: int) -> bytes:
    """Return a number that differs where a value of a tensor in host memory, or its type,
    differs."""
    found = hashlib.blake2b(dtype.encode(), digest_size=_DIGEST_BYTES)
    if size_bytes:
        found.update(bytes_at(pointer, size_bytes))
    return found.digest()


def compare(
    digests: Sequence[tuple[str, tuple[int, ...], bytes]],
    name: str,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Raise ReplicasDifferError on every rank unless (name, shape, digest) of all tensors are
    those of all ranks. Collective."""
    names = ", ".join(f"{key} {shape}" for key, shape, _ in digests)
    own = b"".join(part for _, _, part in digests)
    call = Call(
        Operation.ALLGATHER,
        f"check_replicas.{name}",
        process_set=process_set,
        detail=f"check_replicas of {len(digests)} tensors: {names}",
    )
    received = gather(call, own or bytes(1))
    parts = received.of_ranks()
    for number, (key, _, _) in enumerate(digests):
        begin = number * _DIGEST_BYTES
        found = [part[begin : begin + _DIGEST_BYTES] for part in parts]
        if any(one != found[0] for one in found):
            raise ReplicasDifferError(_difference(key, received.ranks, found))


def _difference(name: str, ranks: Sequence[int], digests: Sequence[bytes]) -> str:
    """Return what to say: most ranks are taken to be right, or the first ones."""
    usual = max(digests, key=lambda digest: (digests.count(digest), -digests.index(digest)))
    others = [rank for rank, digest in zip(ranks, digests, strict=True) if digest != usual]
    alike = [rank for rank, digest in zip(ranks, digests, strict=True) if digest == usual]
    return (
        f"the ranks' weights differ: {_list(others)} and {_list(alike)} have different values of "
        f"'{name}'. Start all ranks from the same weights (broadcast_parameters), make the same "
        "steps on every rank, and change gradients in the same way on every rank"
    )


def _list(ranks: Sequence[int]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:8])
    more = f" and {len(ranks) - 8} more" if len(ranks) > 8 else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"
