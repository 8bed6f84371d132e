"""torch's DistributedDataParallel over byteps.

    torchrun --nproc-per-node 2 examples/torch_ddp.py
    bps run -np 2 python examples/torch_ddp.py

A program for torchrun needs another name of the backend, and nothing else. `torch_ddp.py gloo` is
the same program over Gloo.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from regression import STEPS, chosen_backend, fingerprint, loss_of, make_model


def main() -> None:
    """Train."""
    dist.init_process_group(chosen_backend())
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
    print(f"weights {fingerprint(model.parameters())}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
