"""Several tensors as one operation: packed into one buffer for each type of element."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch

from byteps.common import default
from byteps.common.pending import Handle, Pending, PendingGroup, Receipt
from byteps.common.process_sets import ProcessSet, global_process_set
from byteps.common.reduction import ReduceOp, choose_op
from byteps.torch.allreduce import reduce_call
from byteps.torch.compression import Compression, Compressor
from byteps.torch.linear import LINEAR
from byteps.torch.memory import (
    check_one_device,
    check_scalable,
    check_writable,
    data_type,
    host_memory,
    is_plain,
    scaled,
)
from byteps.torch.nonlinear import gradient
from byteps.torch.submit import (
    Call,
    apply,
    cut_average,
    finished_list,
    is_cut,
    submit,
    sum_of,
)

Tensors = Sequence[torch.Tensor]


def grouped_allreduce_async(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Start to combine several tensors into new ones, all or none; return one handle.

    Example::

        handle = bps.grouped_allreduce_async([loss, accuracy], name="metrics")
        loss, accuracy = bps.synchronize(handle)
    """
    call = reduce_call(choose_op(average, op), name, prescale_factor, postscale_factor, process_set)
    return start_group(call, tensors, None)


def grouped_allreduce_async_(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Start to combine several tensors in place, all or none; return one handle.

    Example::

        bps.synchronize(bps.grouped_allreduce_async_(gradients, name="gradients"))
    """
    call = reduce_call(choose_op(average, op), name, prescale_factor, postscale_factor, process_set)
    return start_group(call, tensors, list(tensors))


def grouped_allreduce_(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Combine several tensors in place, all or none, and return them.

    Example::

        bps.grouped_allreduce_([loss, accuracy], name="metrics")
    """
    call = reduce_call(choose_op(average, op), name, prescale_factor, postscale_factor, process_set)
    return finished_list(start_group(call, tensors, list(tensors)))


def grouped_allreduce(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    compression: Compressor | type[Compressor] = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Return the combinations of several tensors, all or none; see `allreduce`.

    The tensors travel together, so many small ones cost as little as one. Another number of
    tensors, or other shapes, on some rank is a MismatchError on every rank.

    Example::

        loss, accuracy = bps.grouped_allreduce([loss, accuracy], name="metrics")
    """
    call = reduce_call(choose_op(average, op), name, prescale_factor, postscale_factor, process_set)
    packed = [compression.compress(tensor) for tensor in tensors]
    outputs = apply(_GroupedAllreduce, call, *[tensor for tensor, _ in packed])
    pairs = zip(outputs, packed, strict=True)
    return [compression.decompress(output, context) for output, (_, context) in pairs]


class _GroupedAllreduce(torch.autograd.Function):
    """grouped_allreduce as autograd sees it."""

    @staticmethod
    def forward(ctx: Any, call: Call, *tensors: torch.Tensor) -> Any:
        handle = start_group(call, tensors, None)
        ctx.call = call.backward(handle)
        if call.operation not in LINEAR:
            ctx.save_for_backward(*tensors)
        return tuple(finished_list(handle))

    @staticmethod
    def backward(ctx: Any, *incoming: torch.Tensor) -> Any:
        call: Call = ctx.call
        if call.operation in LINEAR:
            return None, *apply(_GroupedAllreduce, call, *incoming)
        found: list[torch.Tensor | None] = []
        for i, (tensor, its) in enumerate(zip(ctx.saved_tensors, incoming, strict=True)):
            one = replace(call, name=f"{call.name}.{i}")
            has = tensor.is_floating_point()
            found.append(gradient(one, call.operation, tensor, its) if has else None)
        return None, *found


def describe_tensors(tensors: Tensors) -> str:
    """Return how many tensors of which shapes and types a group has, in words."""
    texts = [f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in tensors]
    return f"{len(tensors)} tensors: {', '.join(texts)}"


def start_group(call: Call, tensors: Tensors, outputs: list[torch.Tensor] | None) -> Handle:
    """Start one operation per type of element; without `outputs`, new tensors."""
    device = check_one_device(tensors)
    for tensor in tensors:
        check_scalable(tensor.dtype, (call.prescale, call.postscale))
    for output in outputs or ():
        if not is_plain(output):
            check_writable(output)
    if outputs is None:
        outputs = [torch.empty(t.shape, dtype=t.dtype, device=device) for t in tensors]
    detail = describe_tensors(tensors)
    call = replace(call, detail=detail)
    by_type: dict[torch.dtype, list[int]] = {}
    for index, tensor in enumerate(tensors):
        by_type.setdefault(tensor.dtype, []).append(index)
    packs = [_Pack([tensors[i] for i in group], call) for group in by_type.values()]
    if not packs:  # the others may have tensors: they must be told
        packs = [_Pack([torch.empty(0)], call)]
        outputs_of: list[list[torch.Tensor]] = [[]]
    else:
        outputs_of = [[outputs[i] for i in group] for group in by_type.values()]
    results = outputs

    def finish() -> list[torch.Tensor]:
        for pack, places in zip(packs, outputs_of, strict=True):
            pack.unpack(places)
        return results

    return start_packs(packs, call, device, finish, list(tensors))


class Pack(Protocol):
    """Tensors of one type in one buffer."""

    name: str  # of its operation, once it is started

    def start(self, call: Call, device: torch.device) -> Pending:
        """Start its operation."""


def start_packs(
    packs: Sequence[Pack],
    call: Call,
    device: torch.device,
    finish: Callable[[], object],
    keep_alive: object = None,
) -> Handle:
    """Start the operations of a group; return its handle. `finish` makes the result of it."""
    first = packs[0].start(call, device)
    keep = (keep_alive, packs)
    if len(packs) == 1:
        pending = Pending(first.session, first.native_handle, finish, keep)
        return default.pending().add(pending, packs[0].name)
    name = packs[0].name
    rest = [
        _starter(pack, replace(call, name=f"{name}.{i}"), device)
        for i, pack in enumerate(packs[1:], 1)
    ]
    return default.pending().add(_Chain(first, rest, finish, keep), name)


def _starter(pack: Pack, call: Call, device: torch.device) -> Callable[[], Pending]:
    return lambda: pack.start(call, device)


class _Pack:
    """Tensors of one type, one after the other in one buffer."""

    def __init__(self, tensors: Tensors, call: Call) -> None:
        self._shapes = [tensor.shape for tensor in tensors]
        self._counts = [tensor.numel() for tensor in tensors]
        flat = torch.cat([host_memory(tensor).detach().reshape(-1) for tensor in tensors])
        self._dtype = flat.dtype
        self._is_cut = is_cut(call, flat.dtype)
        self._flat = flat.to(torch.int64) if self._is_cut else flat
        if call.prescale != 1.0:
            self._flat = scaled(self._flat, call.prescale)
        self._call = call
        self.name = ""

    def start(self, call: Call, device: torch.device) -> Pending:
        """Start the operation of the buffer, in place."""
        shape = (self._flat.numel(),)
        dtype = data_type(self._flat)
        if self._is_cut:
            call = sum_of(call, self._dtype)
        session, self.name, handle = submit(call, device, dtype, shape, self._flat, self._flat)
        self._pending = Pending(session, handle, lambda: None)
        return self._pending

    def unpack(self, outputs: Sequence[torch.Tensor]) -> None:
        """Copy the results to where they belong. REQUIRES: the operation has succeeded."""
        if not outputs:
            return
        flat = self._flat
        if self._is_cut:
            flat = cut_average(self._call, flat, self._pending.members())
        if self._call.postscale != 1.0:
            flat = scaled(flat, self._call.postscale)
        with torch.no_grad():
            pieces = flat.split(self._counts)
            views = [p.view(s) for p, s in zip(pieces, self._shapes, strict=True)]
            torch._foreach_copy_(list(outputs), views)


class _Chain:
    """Operations of which the later ones start when the first has succeeded.

    The first tells whether all ranks mean the same group. The others begin on a thread of their
    own, so that they need no help from a rank that waits for something else.
    """

    def __init__(
        self,
        first: Pending,
        rest: list[Callable[[], Pending]],
        finish: Callable[[], object],
        keep_alive: object,
    ) -> None:
        self.receipt = Receipt()
        self.finish = finish
        self._group = PendingGroup([first], lambda: None)
        self._keep_alive = keep_alive
        self._error: Exception | None = None
        self._done = threading.Event()
        threading.Thread(target=self._run, args=(rest,), name="byteps-group", daemon=True).start()

    def _run(self, rest: list[Callable[[], Pending]]) -> None:
        try:
            self._group.wait()
            for start in rest:
                self._group.parts = [*self._group.parts, start()]
            self._group.wait()
        except Exception as error:
            self._error = error
        finally:
            self._done.set()

    def is_complete(self) -> bool:
        """Return whether `wait` would not block."""
        return self._done.is_set()

    def wait(self) -> None:
        """Block until all are over; raise the first error."""
        self._done.wait()
        if self._error is not None:
            raise self._error

    def members(self) -> list[int]:
        """Return the ranks in every part of the result."""
        return [] if self._error is not None else self._group.members()

    def release(self) -> None:
        """Let go of everything."""
        self._group.release()
