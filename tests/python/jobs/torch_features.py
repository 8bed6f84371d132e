"""What the installed torch has; an old one does not have everything that is tried."""

from __future__ import annotations

import torch


def _has_fused() -> bool:
    try:
        torch.optim.AdamW([torch.nn.Parameter(torch.ones(1))], fused=True)
    except RuntimeError:
        return False
    return True


HAS_SCALER = hasattr(torch.amp, "GradScaler")  # one that works on the CPU
HAS_FUSED = _has_fused()  # on the CPU
NO_SCALER = f"torch {torch.__version__} has no GradScaler for the CPU"
NO_FUSED = f"torch {torch.__version__} has no fused optimizers for the CPU"


def say_what_is_skipped() -> None:
    for is_there, text in ((HAS_SCALER, NO_SCALER), (HAS_FUSED, NO_FUSED)):
        if not is_there:
            print(f"skipped: {text}", flush=True)
