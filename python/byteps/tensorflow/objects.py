"""Python objects between ranks (byteps.common.operations.objects)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from byteps.common.operations import objects
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.tensorflow.errors import with_tensorflow_errors


@with_tensorflow_errors
def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the root's object on every rank. It travels at once, also while a graph is made;
    `session` is accepted for programs written for Horovod.

    The object travels pickled, so its sender can run code on every rank. If strangers can join the
    job (it has several machines and no BYTEPS_JOB_SECRET), this raises RefusedError on every rank,
    unless BYTEPS_ALLOW_OBJECTS is set.

    Example::

        settings = bps.broadcast_object(settings if bps.rank() == 0 else None)
    """
    del session
    return objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[[Any], Any]:
    """Return a function that does `broadcast_object`.

    Example::

        from_first = bps.broadcast_object_fn(root_rank=0)
        settings = from_first(settings)
    """

    def broadcast(obj: Any) -> Any:
        return broadcast_object(obj, root_rank, session, name, process_set)

    return broadcast


@with_tensorflow_errors
def allgather_object(
    obj: Any,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Return the objects of all ranks, in rank order. They travel at once, also while a graph is
    made; `session` is accepted for programs written for Horovod.

    The objects travel pickled, so every rank can run code on every other one. If strangers can join
    the job (it has several machines and no BYTEPS_JOB_SECRET), this raises RefusedError on every
    rank, unless BYTEPS_ALLOW_OBJECTS is set.

    Example::

        losses = bps.allgather_object({"rank": bps.rank(), "loss": loss})
    """
    del session
    return objects.allgather_object(obj, name, process_set)
