"""What the installed torch has; an old one does not have everything that is tried.

Functions are for what can be known only by importing more of torch, which takes a second: each
process of pytest imports this file.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from byteps.torch.compile_guard import HAS_OPERATIONS


@functools.cache
def has_fused() -> bool:
    """Whether optimizers are fused on the CPU, too."""
    try:
        torch.optim.AdamW([torch.nn.Parameter(torch.ones(1))], fused=True)
    except RuntimeError:
        return False
    return True


def sharding() -> Callable[..., Any] | None:
    """Return FSDP2's fully_shard. Torch has it from 2.6 on."""
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        return None
    return fully_shard


HAS_SCALER = hasattr(torch.amp, "GradScaler")  # one that works on the CPU
HAS_MUON = hasattr(torch.optim, "Muon")
NO_SCALER = f"torch {torch.__version__} has no GradScaler for the CPU"
NO_FUSED = f"torch {torch.__version__} has no fused optimizers for the CPU"
NO_OPERATIONS = f"torch {torch.__version__} keeps no operations of others in graphs"
NO_SHARDED = f"torch {torch.__version__} has no FSDP2"
NO_MUON = f"torch {torch.__version__} has no Muon"


def say_what_is_skipped() -> None:
    for is_there, text in (
        (HAS_SCALER, NO_SCALER),
        (has_fused(), NO_FUSED),
        (HAS_OPERATIONS, NO_OPERATIONS),
        (sharding() is not None, NO_SHARDED),
        (HAS_MUON, NO_MUON),
    ):
        if not is_there:
            print(f"skipped: {text}", flush=True)
