"""Several backward passes for each step: ``bps run -np 2 python examples/torch_accumulation.py``.

The ranks exchange gradients once in PASSES passes: a large batch for a fraction of the bytes.
"""

from __future__ import annotations

import torch
from regression import STEPS, loss_of, make_model

import byteps.torch as bps

PASSES = 4


def main() -> None:
    """Train."""
    bps.init()
    torch.manual_seed(bps.rank())
    model = make_model()
    optimizer = bps.DistributedOptimizer(
        torch.optim.Adam(model.parameters(), lr=0.02),
        named_parameters=model.named_parameters(),
        backward_passes_per_step=PASSES,
    )
    bps.broadcast_parameters(model.state_dict(), root_rank=0)
    for step in range(STEPS):
        optimizer.zero_grad()
        for part in range(PASSES):
            loss = loss_of(model, bps.rank(), step * PASSES + part)
            (loss / PASSES).backward()
        # All that changes gradients stands here, for instance clipping.
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    bps.check_replicas(model)
    loss = bps.allreduce(loss.detach(), name="loss")
    if bps.rank() == 0:
        print(f"loss {loss.item():.4f} on {bps.size()} ranks, {STEPS} exchanges")


if __name__ == "__main__":
    main()
