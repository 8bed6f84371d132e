"""Several tensors as one operation to the user: one buffer for each type of element."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeVar

from byteps.common.devices import DevicePlace
from byteps.common.operations.call import Call, request_of
from byteps.common.session import default
from byteps.common.session.flight import Chain, Flight
from byteps.common.session.pending import Handle
from byteps.common.types import DataType

Kind = TypeVar("Kind", bound=Hashable)


class Buffer(NamedTuple):
    """A buffer of a pack: its type and shape, and the addresses of source and target."""

    dtype: DataType
    shape: Sequence[int]
    source: int
    target: int
    place: DevicePlace | None = None  # of the memory; None: the host's


class Pack(Protocol):
    """Tensors of one type in one buffer, which lives as long as this does."""

    def buffer(self) -> Buffer:
        """Return the buffer."""

    def call(self, call: Call) -> Call:
        """Return the call of its operation, which is that of the group or made of it."""


def start_group(
    packs: Sequence[Pack],
    call: Call,
    device: str,
    finish: Callable[[Flight], object],
    keep_alive: object = None,
) -> Handle[Any]:
    """Start the operations of a group of at least one pack; return its handle.

    `finish` makes what `synchronize` returns. The first operation has the name of the group, and
    tells whether all ranks mean the same; the others have numbers and follow it.
    """
    session = default.current()
    default.pending().sweep()
    # Before the group has a name: nothing else may fail between the name and the start.
    parts = [(pack.call(call), pack.buffer()) for pack in packs]
    own, buffer = parts[0]
    first = request_of(session, own, device, *buffer)
    keep = (keep_alive, packs)
    if len(packs) == 1:
        return default.pending().add(Flight(session, [first], finish, keep))
    requests = [first]
    for number, (own, buffer) in enumerate(parts[1:], 1):
        own = replace(own, name=f"{first.name}.{number}")
        requests.append(request_of(session, own, device, *buffer))
    return default.pending().add(Chain(session, requests, finish, keep))


def places_by_kind(kinds: Iterable[Kind]) -> dict[Kind, list[int]]:
    """Return where in a list each kind is: types of tensors, in the order of the first of each."""
    places: dict[Kind, list[int]] = {}
    for place, kind in enumerate(kinds):
        places.setdefault(kind, []).append(place)
    return places


def describe_tensors(tensors: Sequence[tuple[str, Sequence[object]]]) -> str:
    """Return how many tensors of which (type, shape) a group has, in words."""
    texts = [f"{dtype}[{', '.join(map(str, shape))}]" for dtype, shape in tensors]
    return f"{len(tensors)} tensors: {', '.join(texts)}"
