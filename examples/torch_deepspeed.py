"""DeepSpeed's ZeRO, stage 1, on CPUs over byteps: each rank keeps a part of the optimizer's state.

    torchrun --nproc-per-node 2 examples/torch_deepspeed.py
    bps run -np 2 python examples/torch_deepspeed.py

Needs ``pip install deepspeed``. `torch_deepspeed.py gloo` is the same program over Gloo.
"""

from __future__ import annotations

import os

import torch
from regression import BATCH, STEPS, chosen_backend, fingerprint, loss_of, make_model

os.environ["DS_ACCELERATOR"] = "cpu"
import deepspeed


def main() -> None:
    """Train."""
    deepspeed.init_distributed(dist_backend=chosen_backend())
    torch.manual_seed(0)
    model = make_model()
    engine, _, _, _ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=0.01),
        config={
            "train_micro_batch_size_per_gpu": BATCH,
            "zero_optimization": {"stage": 1},
            "zero_allow_untested_optimizer": True,
        },
    )
    for step in range(STEPS):
        loss = loss_of(engine, deepspeed.comm.get_rank(), step)
        engine.backward(loss)
        engine.step()
    print(f"weights {fingerprint(model.parameters())}")


if __name__ == "__main__":
    main()
