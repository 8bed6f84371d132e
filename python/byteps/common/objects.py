"""Python objects between ranks. They travel pickled: ranks must trust each other."""

from __future__ import annotations

from typing import Any

import cloudpickle

from byteps.common import default
from byteps.common.byte_rows import bytes_of_root, gather
from byteps.common.call import Call, checked_root
from byteps.common.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation


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
    received = bytes_of_root(call, cloudpickle.dumps(obj) if is_root else None, root_rank)
    return obj if is_root else cloudpickle.loads(received)


def allgather_object(
    obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Return the objects of all ranks, in rank order.

    Example::

        losses = bps.allgather_object({"rank": bps.rank(), "loss": loss})
    """
    call = Call(
        Operation.ALLGATHER,
        f"Objects.{name or 'object'}",
        process_set=process_set,
        detail="allgather_object",
    )
    received = gather(call, cloudpickle.dumps(obj))
    return [cloudpickle.loads(part) for part in received.of_ranks()]
