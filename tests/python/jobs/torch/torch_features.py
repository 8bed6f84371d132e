"""What the installed torch has; an old one does not have everything that is tried."""

from __future__ import annotations

import torch

from byteps.torch.compile_guard import HAS_OPERATIONS


def _has_fused() -> bool:
    try:
        torch.optim.AdamW([torch.nn.Parameter(torch.ones(1))], fused=True)
    except RuntimeError:
        return False
    return True


try:
    from torch.distributed.fsdp import fully_shard
except ImportError:
    fully_shard = None  # before torch 2.6

HAS_SCALER = hasattr(torch.amp, "GradScaler")  # one that works on the CPU
HAS_FUSED = _has_fused()  # on the CPU
HAS_MUON = hasattr(torch.optim, "Muon")
NO_SCALER = f"torch {torch.__version__} has no GradScaler for the CPU"
NO_FUSED = f"torch {torch.__version__} has no fused optimizers for the CPU"
NO_OPERATIONS = f"torch {torch.__version__} keeps no operations of others in graphs"
NO_SHARDED = f"torch {torch.__version__} has no FSDP2"
NO_MUON = f"torch {torch.__version__} has no Muon"


def say_what_is_skipped() -> None:
    for is_there, text in (
        (HAS_SCALER, NO_SCALER),
        (HAS_FUSED, NO_FUSED),
        (HAS_OPERATIONS, NO_OPERATIONS),
        (fully_shard is not None, NO_SHARDED),
        (HAS_MUON, NO_MUON),
    ):
        if not is_there:
            print(f"skipped: {text}", flush=True)
