"""Operations without tensors, in which ranks wait for each other: barrier and join."""

from __future__ import annotations

import weakref
from typing import Protocol, cast

from byteps.common.operations.call import Call, start
from byteps.common.session import default
from byteps.common.session.flight import Flight
from byteps.common.session.pending import Handle
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.common.types import DataType, Operation


def barrier(process_set: ProcessSet | str | None = None, name: str | None = None) -> None:
    """Block until every rank has called it.

    Example::

        bps.barrier()
    """
    if isinstance(process_set, str):  # a name in the first place, as it was once
        process_set, name = None, process_set
    meet(Call(Operation.BARRIER, name, process_set=process_set or global_process_set))


def join(device: int = -1) -> int:
    """Tell that this rank has no more data; block until all ranks have. Return the last rank.

    Until all ranks have joined, the others go on without this rank. It counts as zeros in sums,
    averages still divide by the number of all ranks, and minima, maxima and products contain only
    the other ranks. Finish all operations of this rank first; `join` itself finishes those of a
    CrossBarrier. `device` is accepted for programs written for Horovod.

    Example::

        for batch in uneven_data:
            train(batch)
        # The last one has made all steps: the others get its weights.
        bps.broadcast_parameters(model.state_dict(), root_rank=bps.join())
    """
    del device
    for living in list(_waited_for()):
        living.wait()
    last = meet(Call(Operation.JOIN, "join"))
    # Ranks have made different numbers of calls without a name.
    default.current().unnamed.begin_again()
    return last


class Waiting(Protocol):
    """What has operations of its own on their way."""

    def wait(self) -> None:
        """Block until they are over."""


def wait_before_join(waiting: Waiting) -> None:
    """Let `join` wait for it first, as long as it lives."""
    _waited_for().add(waiting)


def _waited_for() -> weakref.WeakSet[Waiting]:
    state = default.current().plugin_state.setdefault("before join", weakref.WeakSet())
    return cast("weakref.WeakSet[Waiting]", state)


def meet(call: Call) -> int:
    """Block until every rank has made the same call without a tensor; return its result."""
    return default.pending().synchronize(_start(call))


def ranks_who_meet(call: Call) -> list[int]:
    """Do `meet`; return the ranks that have made the call, which all of them agree on."""
    handle = _start(call)
    default.pending().synchronize(handle)
    return handle.members


def _start(call: Call) -> Handle[int]:
    return start(call, "cpu", DataType.UINT8, (), finish=Flight.number)
