"""How a tensor becomes an operation of the session: the one way in for all of byteps.torch."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch

from byteps.common import default
from byteps.common.errors import InvalidArgumentError
from byteps.common.names import check_name
from byteps.common.pending import Handle, Pending
from byteps.common.process_sets import ProcessSet, global_process_set, number_of
from byteps.common.session import Request, Session
from byteps.common.types import DataType, Operation
from byteps.torch.memory import (
    check_scalable,
    check_writable,
    data_type,
    host_memory,
    is_plain,
    scaled,
    tell_of_change,
)

_REDUCTIONS = (
    Operation.SUM,
    Operation.AVERAGE,
    Operation.MIN,
    Operation.MAX,
    Operation.PRODUCT,
)
_SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
_PRIORITY_END = 1 << 31
_DEVICE_DETAIL = {kind: f"device {kind}" for kind in ("cpu", "cuda")}


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

    def backward(self, handle: Handle) -> Call:
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


def submit(
    call: Call,
    device: torch.device,
    dtype: DataType,
    shape: Sequence[int],
    source: torch.Tensor | None,
    target: torch.Tensor | None,
) -> tuple[Session, str, int]:
    """Start the operation on host memory; return the session, the name and the native handle."""
    session = default.current()
    default.pending().sweep()
    request = Request(
        "",
        call.operation,
        dtype,
        shape,
        0 if source is None else source.data_ptr(),
        0 if target is None else target.data_ptr(),
        call.root_rank,
        call.priority,
        call.combine,
        number_of(call.process_set),
        _detail(call, device.type),
        call.splits,
    )
    if call.name in session.atomic and call.operation in _REDUCTIONS:
        request.atomic = True
        request.detail += "; atomic"
    if call.name is None:
        request.name = session.unnamed.name(scope_of(request.process_set))
    else:
        request.name = call.name
    return session, request.name, session.start(request)


def scope_of(process_set: int) -> str:
    """Return what names of unnamed calls begin with: the ranks of a set make calls of their own,
    which the others do not count."""
    return f"set{process_set}." if process_set else ""


def exchange(call: Call, tensor: torch.Tensor, output: torch.Tensor | None) -> Handle:
    """Start an operation whose result has the tensor's shape; without `output`, a new tensor."""
    in_place = output is not None
    dtype = data_type(tensor)
    check_scalable(tensor.dtype, (call.prescale, call.postscale))
    if is_cut(call, tensor.dtype):
        return _exchange_cut(call, tensor, output)
    source = host_memory(tensor)
    if output is None:
        output = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    elif not is_plain(output):
        check_writable(output)
    target = output
    if not is_plain(output):
        own_copy = output is tensor and source is not tensor
        target = source if own_copy else torch.empty_like(source)
    if call.prescale != 1.0:
        source = scaled(source, call.prescale)
    session, name, handle = submit(call, tensor.device, dtype, tensor.shape, source, target)
    finish = _finish(output, target, call.postscale, in_place)
    pending = Pending(session, handle, finish, (tensor, source, target))
    return default.pending().add(pending, name)


def is_cut(call: Call, dtype: torch.dtype) -> bool:
    """Return whether the call is an average of integers that is cut toward zero.

    The servers round down. So it travels as a sum of int64, see `sum_of`, and each rank divides.
    """
    return call.toward_zero and call.operation is Operation.AVERAGE and dtype in _SIGNED


def sum_of(call: Call, dtype: torch.dtype) -> Call:
    """Return the call of the sum that `cut_average` divides. It tells the type that the user has,
    which must be equal on all ranks."""
    detail = f"{call.detail}; " if call.detail else ""
    detail += f"average of {str(dtype).removeprefix('torch.')}"
    return replace(call, operation=Operation.SUM, detail=detail)


def cut_average(call: Call, total: torch.Tensor, receipt: Sequence[int]) -> torch.Tensor:
    """Return the sum over the ranks of `receipt` divided by their number."""
    count = divisor(call.process_set, receipt)
    return torch.div(total, count, rounding_mode="trunc")


def divisor(process_set: ProcessSet, receipt: Sequence[int]) -> int:
    """Return what an average is divided by: ranks that have joined count, lost ones do not."""
    if len(receipt) == process_set.size():
        return len(receipt)
    counted = {*receipt, *default.members()}
    return sum(rank in counted for rank in process_set.ranks)


def _exchange_cut(call: Call, tensor: torch.Tensor, output: torch.Tensor | None) -> Handle:
    total = host_memory(tensor).detach().to(torch.int64, copy=True)
    if call.prescale != 1.0:
        total = scaled(total, call.prescale)
    if output is None:
        output = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    elif not is_plain(output):
        check_writable(output)
    session, name, handle = submit(
        sum_of(call, tensor.dtype), tensor.device, DataType.INT64, tensor.shape, total, total
    )

    def finish() -> torch.Tensor:
        average = cut_average(call, total, session.handle_members(handle))
        with torch.no_grad():
            output.copy_(average if call.postscale == 1.0 else scaled(average, call.postscale))
        return output

    return default.pending().add(Pending(session, handle, finish, (tensor, total)), name)


def finished(handle: int) -> torch.Tensor:
    """Wait for an operation whose result is a tensor."""
    return cast(torch.Tensor, default.pending().synchronize(handle))


def finished_list(handle: int) -> list[torch.Tensor]:
    """Wait for an operation whose result is a list of tensors."""
    return list(cast("list[torch.Tensor]", default.pending().synchronize(handle)))


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
        raise InvalidArgumentError(f"root_rank is {root_rank}; it is not in the {process_set}.")
    return root_rank


def apply(function: Any, *arguments: Any) -> Any:
    """Call an autograd function."""
    return function.apply(*arguments)


def _detail(call: Call, device: str) -> str:
    text = _DEVICE_DETAIL.get(device) or f"device {device}"
    if call.prescale != 1.0:
        text += f"; prescale_factor {call.prescale!r}"
    if call.postscale != 1.0:
        text += f"; postscale_factor {call.postscale!r}"
    return f"{text}; {call.detail}" if call.detail else text


def _finish(
    output: torch.Tensor, target: torch.Tensor, postscale: float, in_place: bool
) -> Callable[[], torch.Tensor]:
    """Return what brings the result from host memory to where the user wants it."""
    if target is output and postscale == 1.0:
        return (lambda: tell_of_change(output)) if in_place else (lambda: output)

    def finish() -> torch.Tensor:
        with torch.no_grad():
            output.copy_(target if postscale == 1.0 else scaled(target, postscale))
        return output

    return finish
