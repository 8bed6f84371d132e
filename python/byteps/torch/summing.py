"""Sums and averages over ranks as autograd sees them: each is its own gradient."""

from __future__ import annotations

from typing import Any

import torch

from byteps.common.operations.call import Call
from byteps.torch.submit import apply, exchange, finished


class _Linear(torch.autograd.Function):
    """A sum or an average. Its gradient is the same of the ranks' gradients, and has one itself."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, call: Call) -> torch.Tensor:
        handle = exchange(call, tensor, None)
        ctx.call = call.backward(handle)
        return finished(handle)

    @staticmethod
    def backward(ctx: Any, *incoming: torch.Tensor) -> Any:
        return combined(incoming[0], ctx.call), None


def combined(tensor: torch.Tensor, call: Call) -> torch.Tensor:
    """Return a sum or an average over all ranks."""
    result: torch.Tensor = apply(_Linear, tensor, call)
    return result
