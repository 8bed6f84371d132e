"""FSDP over byteps: each rank keeps its part of the parameters, and gathers a layer when needed.

    torchrun --nproc-per-node 2 examples/torch_fsdp.py
    bps run -np 2 python examples/torch_fsdp.py

`torch_fsdp.py gloo` is the same program over Gloo.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from regression import STEPS, chosen_backend, fingerprint, loss_of, make_model
from torch.distributed.fsdp import fully_shard


def main() -> None:
    """Train."""
    dist.init_process_group(chosen_backend())
    torch.manual_seed(0)
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    model = make_model()
    for layer in model:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, dist.get_rank(), step)
        loss.backward()
        optimizer.step()
    loss = loss.detach()
    dist.all_reduce(loss)
    kept = sum(p.to_local().numel() for p in model.parameters())
    everything = sum(p.numel() for p in model.parameters())
    if dist.get_rank() == 0:
        print(f"rank 0 keeps {kept} of {everything} numbers")
        print(f"loss {loss.item() / dist.get_world_size():.4f} on {dist.get_world_size()} ranks")
    print(f"weights {fingerprint(p.full_tensor() for p in model.parameters())}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
