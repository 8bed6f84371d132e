"""Hugging Face Accelerate: a script that knows nothing of byteps.

    bps run -np 2 --as gloo python examples/torch_accelerate.py
    BYTEPS_TORCH_AS=gloo torchrun --nproc-per-node 2 examples/torch_accelerate.py
    BYTEPS_TORCH_AS=gloo python examples/torch_accelerate.py 2     # as a notebook starts it

Needs ``pip install accelerate``. Without `--as gloo` and without BYTEPS_TORCH_AS it runs over Gloo.
"""

from __future__ import annotations

import sys

import accelerate
import torch
from regression import BATCH, data_of_all, fingerprint, make_model
from torch.utils.data import DataLoader


def main() -> None:
    """Train on the data of all ranks."""
    accelerator = accelerate.Accelerator(cpu=True)
    accelerate.utils.set_seed(0)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model, optimizer, loader = accelerator.prepare(
        model, optimizer, DataLoader(data_of_all(), batch_size=BATCH, shuffle=True)
    )
    for _ in range(4):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
    loss = accelerator.gather(loss.detach().reshape(1)).mean()
    backend = torch.distributed.get_backend()
    accelerator.print(f"loss {loss.item():.4f} on {accelerator.num_processes} ranks of {backend}")
    print(f"weights {fingerprint(model.parameters())}")
    accelerator.end_training()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        accelerate.notebook_launcher(main, num_processes=int(sys.argv[1]))
    else:
        main()
