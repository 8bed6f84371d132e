"""Python objects between ranks. They travel pickled: ranks must trust each other."""

from __future__ import annotations

from typing import Any, cast

import cloudpickle
import torch

from byteps.common import default
from byteps.common.errors import InvalidArgumentError, PeerLostError
from byteps.common.process_sets import ProcessSet, global_process_set
from byteps.common.session import NAME_PREFIX
from byteps.common.types import Operation
from byteps.torch.gather import start_gather
from byteps.torch.memory import bytes_of
from byteps.torch.submit import Call, checked_root


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the root's object on every rank.

    Example::

        settings = bps.broadcast_object(settings if bps.rank() == 0 else None)
    """
    root_rank = checked_root(root_rank, process_set)
    is_root = default.rank() == root_rank
    # The type's name would be no good name, since the others may pass None; and one name would
    # stand for one root.
    call = Call(
        Operation.ALLGATHER,
        None if name is None else f"Object.{name}",
        process_set=process_set,
        detail=f"broadcast_object root {root_rank}",
    )
    received = bytes_of_root(call, _bytes_of(obj) if is_root else None, root_rank)
    return obj if is_root else _object_of(received)


def bytes_of_root(call: Call, own: torch.Tensor | None, root_rank: int) -> torch.Tensor:
    """Return the root's bytes on every rank; others than the root have no `own`.

    REQUIRES: `call` is an allgather. The root's bytes are the only rows, so that no rank has to
    know their number beforehand; then it is no error of an allgather that there are none.
    """
    rows = torch.empty(0, dtype=torch.uint8) if own is None else own
    handle = start_gather(call, rows)
    received = cast(torch.Tensor, default.pending().synchronize(handle))
    if root_rank in handle.members:
        return received
    what = f"broadcast '{NAME_PREFIX}{handle.name}': rank {root_rank}"
    if root_rank in default.members():
        raise InvalidArgumentError(
            f"{what} has joined: it has no more data; a rank that has joined cannot be the root"
        )
    raise PeerLostError(
        f"{what} was lost before all of its part had arrived; repeat the operation without it"
    )


def allgather_object(
    obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Return the objects of all ranks, in rank order.

    Example::

        losses = bps.allgather_object({"rank": bps.rank(), "loss": loss})
    """
    rows = _bytes_of(obj)
    size = torch.tensor([len(rows)], dtype=torch.int64)
    # The length goes ahead of the bytes, so that the receiver finds where each rank's begin.
    call = Call(
        Operation.ALLGATHER,
        f"Objects.{name or 'object'}",
        process_set=process_set,
        detail="allgather_object",
    )
    sent = torch.cat([size.view(torch.uint8), rows])
    received: Any = default.pending().synchronize(start_gather(call, sent))
    objects, at = [], 0
    while at < len(received):
        begin = at + size.itemsize
        at = begin + int(received[at:begin].clone().view(torch.int64))
        objects.append(_object_of(received[begin:at]))
    return objects


def _bytes_of(obj: Any) -> torch.Tensor:
    return torch.frombuffer(bytearray(cloudpickle.dumps(obj)), dtype=torch.uint8)


def _object_of(received: Any) -> Any:
    return cloudpickle.loads(bytes_of(received))
