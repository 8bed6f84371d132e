"""A worker that only names the backend: no import of byteps, as in a program that knows nothing."""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist

for backend in sys.argv[1:]:
    dist.init_process_group(backend)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [dist.get_world_size()] * 3
    group = dist.new_group([0], use_local_synchronization=True, group_desc="alone")
    if dist.get_rank() == 0:
        dist.all_reduce(tensor, group=group)
        assert group.group_desc == "alone"
    dist.destroy_process_group()
    assert "byteps.torch" in sys.modules, backend
print("all right", flush=True)
