"""torch's DistributedDataParallel over byteps: ``bps run -np 2 python examples/torch_ddp.py``.

A program for torchrun needs another name of the backend, and nothing else.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from regression import STEPS, loss_of, make_model

import byteps.torch  # noqa: F401  registers the backend


def main() -> None:
    """Train."""
    dist.init_process_group("byteps")
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(make_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, dist.get_rank(), step)
        loss.backward()
        optimizer.step()
    loss = loss.detach()
    dist.all_reduce(loss)
    if dist.get_rank() == 0:
        print(f"loss {loss.item() / dist.get_world_size():.4f} on {dist.get_world_size()} ranks")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
