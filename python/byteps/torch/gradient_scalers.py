"""torch's GradScaler waits for the averages of a DistributedOptimizer before it unscales them.

Ranks must decide alike whether to step, so it has to look at averages. It asks an optimizer for
nothing before it divides its gradients in place, without telling autograd. So `unscale_`, which is
documented, and which `step` calls too, is wrapped: it does nothing more for other optimizers
(docs/decisions/0016-gradient-scalers.md).
"""

from __future__ import annotations

import functools
from typing import Any

import torch


def let_scalers_wait() -> None:
    """Wrap the method that all scalers inherit; once."""
    # Before torch 2.3 there was the one of CUDA.
    scaler: Any = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
    unscale = scaler.unscale_
    if hasattr(unscale, "_waits_for_averages"):
        return

    @functools.wraps(unscale)
    def unscale_(self: Any, optimizer: Any) -> None:
        wait = getattr(optimizer, "_average_before_unscaling", None)
        if wait is not None and self.is_enabled():
            wait()
        unscale(self, optimizer)

    unscale_._waits_for_averages = True  # type: ignore[attr-defined]
    scaler.unscale_ = unscale_
