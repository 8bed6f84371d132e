"""A worker whose environment has torch's variables; RANK is set here, as `torchrun` would."""

from __future__ import annotations

import os

import pytest
import torch
import torch.distributed as dist

import byteps.torch as bps

bps.init()
os.environ["RANK"] = str(1 - bps.rank())
with pytest.raises(ValueError, match="calls this process rank"):
    dist.init_process_group("byteps")
bps.barrier("both have failed")
os.environ.update(RANK=str(bps.rank()), MASTER_PORT=os.environ["SECOND_PORT"])
dist.init_process_group("byteps")
tensor = torch.ones(2)
dist.all_reduce(tensor)
assert tensor.tolist() == [2, 2]
dist.destroy_process_group()
print("all right")
