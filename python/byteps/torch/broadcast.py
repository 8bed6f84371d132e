"""The broadcast family: every rank gets the root's tensor, bit for bit."""

from __future__ import annotations

from typing import Any

import torch

from byteps.common.operations.call import Call
from byteps.common.operations.calls import broadcast_call
from byteps.common.session import default
from byteps.common.session.pending import Handle
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation
from byteps.torch.compile_guard import is_compiling
from byteps.torch.submit import apply, exchange, finished
from byteps.torch.summing import combined


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[torch.Tensor]:
    """Start to copy the root's tensor, bit for bit, into a new tensor; return a handle.

    Example::

        weights = bps.synchronize(bps.broadcast_async(weights, root_rank=0, name="weights"))
    """
    return exchange(broadcast_call(root_rank, name, process_set), tensor, None)


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[torch.Tensor]:
    """Start to copy the root's tensor, bit for bit, into `tensor`; return a handle.

    Example::

        bps.synchronize(bps.broadcast_async_(weights, root_rank=0, name="weights"))
    """
    return exchange(broadcast_call(root_rank, name, process_set), tensor, tensor)


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Return the root's tensor, bit for bit.

    The gradient is the average of all ranks' gradients on the root, and zero elsewhere. With a
    process set, `root_rank` is still the rank in the whole job.

    Example::

        weights = bps.broadcast(weights, root_rank=0, name="weights")
    """
    copied: torch.Tensor
    if is_compiling():  # byteps.torch.compiled.collectives
        options = (root_rank, name, process_set.process_set_id)
        copied, _ = torch.ops.byteps.broadcast(tensor, *options)
    else:
        copied = apply(_Broadcast, tensor, broadcast_call(root_rank, name, process_set))
    return copied


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Overwrite `tensor` with the root's, bit for bit, and return it.

    Example::

        bps.broadcast_(weights, root_rank=0, name="weights")
    """
    return finished(broadcast_async_(tensor, root_rank, name, process_set))


class _Broadcast(torch.autograd.Function):
    """broadcast as autograd sees it."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, call: Call) -> torch.Tensor:
        handle = exchange(call, tensor, None)
        ctx.root_rank = call.root_rank
        ctx.call = call.backward(handle)
        ctx.call.operation, ctx.call.root_rank = Operation.AVERAGE, 0
        return finished(handle)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return copy_gradient(ctx.call, gradients[0], ctx.root_rank), None


def copy_gradient(call: Call, incoming: torch.Tensor, root_rank: int) -> torch.Tensor:
    """Return the gradient of the tensor that the root has copied to all; `call` is the average."""
    average = combined(incoming, call)
    # Not zeros of their own: what goes further back must pass the average on all ranks.
    others = torch.tensor(default.rank() != root_rank, device=average.device)
    return average.masked_fill(others, 0.0)
