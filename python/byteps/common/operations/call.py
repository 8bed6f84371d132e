"""What a user asks for, and how it becomes an operation: the one place that makes requests."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from byteps.common.devices import DevicePlace
from byteps.common.errors import InvalidArgumentError
from byteps.common.request import Request
from byteps.common.session import default
from byteps.common.session.flight import Flight
from byteps.common.session.names import check_name, scope_of
from byteps.common.session.pending import Handle
from byteps.common.session.process_sets import ProcessSet, global_process_set, number_of
from byteps.common.session.session import Session
from byteps.common.types import DataType, Operation

LINEAR = (Operation.AVERAGE, Operation.SUM)

_REDUCTIONS = (*LINEAR, Operation.MIN, Operation.MAX, Operation.PRODUCT)
_SIGNED = (DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64)
_PRIORITY_END = 1 << 31


@dataclass(slots=True)
class Call:
    """What the user asked for, beside the tensor."""

    operation: Operation
    name: str | None = None
    root_rank: int = 0
    priority: int = 0
    process_set: ProcessSet = global_process_set
    prescale: float = 1.0
    postscale: float = 1.0
    detail: str = ""  # what else must be equal on all ranks, in words
    combine: Operation = Operation.SUM
    toward_zero: bool = False  # an average of integers is cut toward zero, not rounded down
    splits: Sequence[int] | None = None

    def __post_init__(self) -> None:
        """Raise for what is no name, no priority or no process set."""
        if self.name is not None:
            check_name(self.name)
        if self.priority != 0:
            self.priority = _checked_priority(self.priority)
        if not isinstance(self.process_set, ProcessSet):
            raise InvalidArgumentError(
                f"process_set is {self.process_set!r}; give a ProcessSet, from add_process_set."
            )

    def backward(self, handle: Handle[Any]) -> Call:
        """Return the call that computes a gradient, named after the one that `handle` is of."""
        return replace(self, name=f"{handle.name}.backward")

    def part(self, text: str, operation: Operation) -> Call:
        """Return one of several calls that this one is made of, without its factors."""
        name = f"{self.name}.{text}"
        return replace(self, name=name, operation=operation, prescale=1.0, postscale=1.0)


def _checked_priority(priority: Any) -> int:
    """Return a priority as an int, also one of numpy's."""
    with contextlib.suppress(TypeError):
        number = operator.index(priority)
        if -_PRIORITY_END <= number < _PRIORITY_END:
            return number
    raise InvalidArgumentError(
        f"priority is {priority!r}; it must be a whole number from {-_PRIORITY_END} to "
        f"{_PRIORITY_END - 1}."
    )


def request_of(
    session: Session,
    call: Call,
    device: str,
    dtype: DataType,
    shape: Sequence[int],
    source: int = 0,
    target: int = 0,
    place: DevicePlace | None = None,
) -> Request:
    """Return the operation on contiguous memory, of the host or at `place`, with the addresses
    `source` and `target`.

    `device` is where the user has the tensor, such as "cpu"; it must be the same on all ranks. A
    call without a name gets one, and counts, unless it is for a channel, which names it: `device`
    is "" then.
    """
    request = Request(
        call.name or "",
        call.operation,
        dtype,
        shape,
        source,
        target,
        call.root_rank,
        call.priority,
        call.combine,
        number_of(call.process_set),
        detail_of(call, device),
        call.splits,
    )
    request.place = place
    if call.name is None:
        if device:
            request.name = session.unnamed.name(scope_of(request.process_set))
    elif call.name in session.atomic and call.operation in _REDUCTIONS:
        request.atomic = True
        request.detail += "; atomic"
    return request


def start(
    call: Call,
    device: str,
    dtype: DataType,
    shape: Sequence[int],
    source: int = 0,
    target: int = 0,
    finish: Callable[[Flight], object] | None = None,
    keep_alive: object = None,
    place: DevicePlace | None = None,
) -> Handle[Any]:
    """Start an operation on contiguous memory, of the host or at `place`; return a handle, to be
    synchronized once.

    `finish` makes what `synchronize` returns, on the thread that calls it; `keep_alive` has the
    memory, and is let go of after that. An allgather or alltoall has no `target`: `finish` asks its
    flight for the rows.
    """
    session = default.current()
    pending = default.pending()
    pending.sweep()
    request = request_of(session, call, device, dtype, shape, source, target, place)
    return pending.add(Flight(session, [request], finish, keep_alive))


def detail_of(call: Call, device: str) -> str:
    """Return what must be equal on all ranks beside operation, type and shape, in words."""
    text = f"device {device}" if device else ""
    if call.prescale != 1.0:
        text += f"; prescale_factor {call.prescale!r}"
    if call.postscale != 1.0:
        text += f"; postscale_factor {call.postscale!r}"
    if not call.detail:
        return text
    return f"{text}; {call.detail}" if text else call.detail


def checked_root(root_rank: int, process_set: ProcessSet) -> int:
    """Return the root as an int, also one of numpy's; raise when it is no rank of the set."""
    try:
        root_rank = operator.index(root_rank)
    except TypeError:
        raise InvalidArgumentError(
            f"root_rank is {root_rank!r}; it must be a whole number."
        ) from None
    if process_set is global_process_set:
        size = default.size()
        if not 0 <= root_rank < size:
            raise InvalidArgumentError(f"root_rank is {root_rank}; the ranks are 0 to {size - 1}.")
    elif root_rank not in process_set.ranks:
        words = process_set.in_words()
        raise InvalidArgumentError(f"root_rank is {root_rank}; it is not in the {words}.")
    return root_rank


def is_cut(call: Call, dtype: DataType) -> bool:
    """Return whether the call is an average of integers that is cut toward zero.

    The servers round down. So it travels as a sum of int64, see `sum_of`, and each rank divides by
    `divisor`.
    """
    return call.toward_zero and call.operation is Operation.AVERAGE and dtype in _SIGNED


def sum_of(call: Call, dtype: DataType) -> Call:
    """Return the call of the sum of which a cut average is made. It tells the type that the user
    has, which must be equal on all ranks."""
    detail = f"{call.detail}; " if call.detail else ""
    detail += f"average of {dtype.name.lower()}"
    return replace(call, operation=Operation.SUM, detail=detail)


def divisor(process_set: ProcessSet, receipt: Sequence[int]) -> int:
    """Return what an average is divided by: ranks that have joined count, lost ones do not."""
    if len(receipt) == process_set.size():
        return len(receipt)
    counted = {*receipt, *default.members()}
    return sum(rank in counted for rank in process_set.ranks)
