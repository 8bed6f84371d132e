"""How a tensor of torch becomes an operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from byteps.common.operations.call import Call, divisor, is_cut, start, sum_of
from byteps.common.session import default
from byteps.common.session.flight import Flight
from byteps.common.session.pending import Handle
from byteps.common.types import DataType
from byteps.torch.devices import place_of
from byteps.torch.memory import (
    check_scalable,
    check_writable,
    data_type,
    is_in_order,
    is_plain,
    new_memory,
    reached_memory,
    scaled,
    tell_of_change,
)


def exchange(call: Call, tensor: torch.Tensor, output: torch.Tensor | None) -> Handle[torch.Tensor]:
    """Start an operation whose result has the tensor's shape; without `output`, a new tensor."""
    in_place = output is not None
    dtype = data_type(tensor)
    check_scalable(tensor.dtype, (call.prescale, call.postscale))
    if is_cut(call, dtype):
        return _exchange_cut(call, dtype, tensor, output)
    source = reached_memory(tensor)
    if output is None:
        output = new_memory(tensor.shape, tensor.dtype, tensor.device)
        target = output if output.device == source.device else torch.empty_like(source)
    elif output is tensor:
        target = source  # its own memory, or a copy
        if target is not output:
            check_writable(output)
    elif output.device == source.device and is_in_order(output):
        target = output
    else:
        check_writable(output)
        target = torch.empty_like(source)
    if call.prescale != 1.0:
        source = scaled(source, call.prescale)
    finish = _finish(output, target, call.postscale, in_place)
    place, to = source.data_ptr(), target.data_ptr()
    keep = (tensor, source, target)
    kind, on = tensor.device.type, place_of(source)
    return start(call, kind, dtype, tensor.shape, place, to, finish, keep, on)


def _exchange_cut(
    call: Call, dtype: DataType, tensor: torch.Tensor, output: torch.Tensor | None
) -> Handle[torch.Tensor]:
    total = reached_memory(tensor).detach().to(torch.int64, copy=True)
    if call.prescale != 1.0:
        total = scaled(total, call.prescale)
    if output is None:
        output = new_memory(tensor.shape, tensor.dtype, tensor.device)
    elif not is_plain(output):
        check_writable(output)

    def finish(flight: Flight) -> torch.Tensor:
        average = cut_average(call, total, flight.members())
        with torch.no_grad():
            output.copy_(average if call.postscale == 1.0 else scaled(average, call.postscale))
        return output

    place = total.data_ptr()
    kind, sums = DataType.INT64, sum_of(call, dtype)
    keep, on = (tensor, total), place_of(total)
    return start(sums, tensor.device.type, kind, tensor.shape, place, place, finish, keep, on)


def cut_average(call: Call, total: torch.Tensor, members: Sequence[int]) -> torch.Tensor:
    """Return the sum over the ranks `members`, divided by their number."""
    return torch.div(total, divisor(call.process_set, members), rounding_mode="trunc")


def finished(handle: Handle[torch.Tensor]) -> torch.Tensor:
    """Wait for an operation whose result is a tensor."""
    return default.pending().synchronize(handle)


def finished_list(handle: Handle[list[torch.Tensor]]) -> list[torch.Tensor]:
    """Wait for an operation whose result is a list of tensors."""
    return list(default.pending().synchronize(handle))


def apply(function: Any, *arguments: Any) -> Any:
    """Call an autograd function."""
    return function.apply(*arguments)


def _finish(
    output: torch.Tensor, target: torch.Tensor, postscale: float, in_place: bool
) -> Callable[[Flight], torch.Tensor]:
    """Return what brings the result from where the session put it to where the user wants it."""
    if target is output and postscale == 1.0:
        return (lambda _: tell_of_change(output)) if in_place else (lambda _: output)

    def finish(_: Flight) -> torch.Tensor:
        with torch.no_grad():
            output.copy_(target if postscale == 1.0 else scaled(target, postscale))
        return output

    return finish
