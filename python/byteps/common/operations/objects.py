"""Python objects between ranks.

They travel pickled, and a rank that unpickles an object runs what its sender wants. So a job does
this only if all its processes have proved that they belong to it, or if the user allows it.
"""

from __future__ import annotations

from typing import Any

import cloudpickle

from byteps.common.errors import RefusedError
from byteps.common.operations.byte_rows import bytes_of_root, gather
from byteps.common.operations.call import Call, checked_root
from byteps.common.session import default
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation


def check_objects(function: str) -> None:
    """Refuse to unpickle in a job that strangers can join: on every rank, before anything waits."""
    if default.current().takes_objects:
        return
    raise RefusedError(
        f"{function} runs code that other ranks send (it unpickles their objects), and strangers "
        "can join this job: it has no secret, and its scheduler is not on a loopback address. Set "
        "BYTEPS_JOB_SECRET to the same value for all processes of the job (openssl rand -hex 16 "
        "makes one). If no stranger can reach the job's network, BYTEPS_ALLOW_OBJECTS=1 for all "
        "workers allows it without a secret."
    )


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the root's object on every rank.

    The object travels pickled, so its sender can run code on every rank. If strangers can join the
    job (it has several machines and no BYTEPS_JOB_SECRET), this raises RefusedError on every rank,
    unless BYTEPS_ALLOW_OBJECTS is set.

    Example::

        settings = bps.broadcast_object(settings if bps.rank() == 0 else None)
    """
    check_objects("broadcast_object")
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

    The objects travel pickled, so every rank can run code on every other one. If strangers can join
    the job (it has several machines and no BYTEPS_JOB_SECRET), this raises RefusedError on every
    rank, unless BYTEPS_ALLOW_OBJECTS is set.

    Example::

        losses = bps.allgather_object({"rank": bps.rank(), "loss": loss})
    """
    check_objects("allgather_object")
    call = Call(
        Operation.ALLGATHER,
        f"Objects.{name or 'object'}",
        process_set=process_set,
        detail="allgather_object",
    )
    received = gather(call, cloudpickle.dumps(obj))
    return [cloudpickle.loads(part) for part in received.of_ranks()]
