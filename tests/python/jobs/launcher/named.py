"""A worker that makes a group of byteps where no launcher has set RANK."""

import os

import torch
import torch.distributed as dist

import byteps.torch  # torch before 2.5 finds no backend by its name

dist.init_process_group("byteps")
tensor = torch.ones(1)
dist.all_reduce(tensor)
rank, size = dist.get_rank(), dist.get_world_size()
assert tensor.item() == size
assert (os.environ["RANK"], os.environ["WORLD_SIZE"]) == (str(rank), str(size))
print(f"all right {rank}/{size}, LOCAL_RANK {os.environ['LOCAL_RANK']}", flush=True)
dist.destroy_process_group()
byteps.torch.shutdown()
byteps.torch.init()  # these variables do not make another job of it
assert byteps.torch.size() == size
