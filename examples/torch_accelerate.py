"""Hugging Face Accelerate over byteps: ``bps run -np 2 python examples/torch_accelerate.py``.

Needs ``pip install accelerate``. Accelerate finds the world of torch.distributed that is there
already, wraps the model in torch's DistributedDataParallel and shares out the batches.
"""

from __future__ import annotations

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

import byteps.torch as bps
import byteps.torch.distributed


def main() -> None:
    """Fit a line, on the data of all ranks."""
    byteps.torch.distributed.init_process_group()
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    inputs = torch.randn(512, 4)
    targets = inputs @ torch.tensor([1.0, -2.0, 3.0, 0.5]) + 1
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=16, shuffle=True)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(4):
        for batch, target in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(batch).squeeze(1), target)
            accelerator.backward(loss)
            optimizer.step()
        mean = accelerator.gather(loss.detach().reshape(1)).mean().item()
        accelerator.print(f"epoch {epoch}: loss {mean:.2e} over {accelerator.num_processes} ranks")
    weights = accelerator.unwrap_model(model).weight.detach()
    assert torch.equal(bps.allgather(weights), weights.expand(bps.size(), -1))
    accelerator.end_training()


if __name__ == "__main__":
    main()
