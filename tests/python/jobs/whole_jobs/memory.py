"""Rank 0 pushes 128 MB at once; rank 1 joins in when the file of the first argument is there."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

import byteps.torch as bps

bps.init()
tensor = torch.full((32 << 20,), 1.0 + bps.rank())
bps.push_pull(torch.zeros(1), name="begin")
print("ready", flush=True)
while not Path(sys.argv[1] + ("/push" if bps.rank() == 0 else "/join")).exists():
    time.sleep(0.02)
total = bps.push_pull(tensor, average=False, name="large")
assert (total == 3.0).all()
print("all right", flush=True)
bps.shutdown()
