"""CrossBarrier: ``bps run -np 2 --servers 2 python examples/torch_cross_barrier.py``.

The next forward pass begins before all parameters are updated: each layer waits for its own.
"""

from __future__ import annotations

import torch
from regression import STEPS, loss_of, make_model

import byteps.torch as bps
from byteps.torch.cross_barrier import CrossBarrier


def main() -> None:
    """Train."""
    bps.init()
    torch.manual_seed(bps.rank())
    model = make_model()
    bps.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = CrossBarrier(model, torch.optim.Adam(model.parameters(), lr=0.01))
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, bps.rank(), step)
        loss.backward()
        optimizer.step()
    optimizer.synchronize()  # before anything but a forward pass reads the weights
    bps.check_replicas(model)
    loss = bps.allreduce(loss.detach(), name="loss")
    if bps.rank() == 0:
        print(f"loss {loss.item():.4f} on {bps.size()} ranks")


if __name__ == "__main__":
    main()
