"""Ray Train over byteps: a TorchTrainer whose configuration names the backend.

    python examples/torch_ray_train.py

Needs ``pip install "ray[train]"``. Ray starts the workers, on one machine or on a cluster.
`torch_ray_train.py gloo` is the same program over Gloo.
"""

from __future__ import annotations

import ray.train
import torch
import torch.distributed as dist
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model
from regression import STEPS, chosen_backend, fingerprint, loss_of, make_model


def train() -> None:
    """Train, as one of the workers."""
    torch.manual_seed(0)
    model = prepare_model(make_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, dist.get_rank(), step).backward()
        optimizer.step()
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}, {dist.get_backend()}")
    print(f"weights {fingerprint(model.parameters())}")


def main() -> None:
    """Start two workers. Ray prints what they print."""
    trainer = TorchTrainer(
        train,
        torch_config=TorchConfig(backend=chosen_backend()),
        scaling_config=ray.train.ScalingConfig(num_workers=2),
    )
    trainer.fit()


if __name__ == "__main__":
    main()
