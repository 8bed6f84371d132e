"""torch's DeviceMesh, with a backend for each of its dimensions.

    torchrun --nproc-per-node 2 examples/torch_mesh.py
    bps run -np 2 python examples/torch_mesh.py

The ranks of the dimension `replicas` exchange gradients over byteps, and those of `shards` over
Gloo. `torch_mesh.py gloo` takes Gloo for both.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from regression import STEPS, chosen_backend, fingerprint, loss_of, make_model
from torch.distributed.fsdp import fully_shard


def main() -> None:
    """Train a model that two replicas share."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    mesh = dist.init_device_mesh(
        "cpu",
        (dist.get_world_size(), 1),
        mesh_dim_names=("replicas", "shards"),
        backend_override={"replicas": chosen_backend(), "shards": "gloo"},
    )
    assert dist.get_backend(mesh.get_group("replicas")) == chosen_backend()
    model = fully_shard(make_model(), mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, dist.get_rank(), step)
        loss.backward()
        optimizer.step()
    print(f"weights {fingerprint(p.full_tensor() for p in model.parameters())}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
