"""Trains for some steps, in one of which rank 1 is late: `training.py FILE` for the timeline."""

from __future__ import annotations

import sys
import time

import torch

import byteps.torch as bps

STEPS, LATE_STEP, LATE_S = 8, 4, 0.03

bps.init()
torch.manual_seed(0)
model = torch.nn.Sequential(
    *(torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU()) for _ in range(3)),
    torch.nn.Linear(256, 1),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer = bps.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
bps.broadcast_parameters(model.state_dict(), root_rank=0)
bps.start_timeline(sys.argv[1])
for step in range(STEPS):
    if step == LATE_STEP and bps.rank() == 1:
        time.sleep(LATE_S)
    optimizer.zero_grad()
    model(torch.randn(64, 256)).square().mean().backward()
    optimizer.step()
bps.stop_timeline()
bps.shutdown()
