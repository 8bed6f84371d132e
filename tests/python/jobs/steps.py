"""A worker that exchanges tensors until something ends it; says when it has begun."""

from __future__ import annotations

import itertools

import torch

import byteps.torch as bps

bps.init()
for step in itertools.count():
    bps.push_pull(torch.ones(100_000), name="step")
    if step == 3:
        print(f"stepping {bps.rank()}", flush=True)
