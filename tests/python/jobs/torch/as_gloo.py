"""A worker that names gloo, as a program that has never heard of byteps."""

from __future__ import annotations

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
assert dist.get_backend() == "byteps"
model = torch.nn.Linear(2, 1)
parallel = torch.nn.parallel.DistributedDataParallel(model)
parallel(torch.full((1, 2), float(dist.get_rank()))).sum().backward()
assert model.weight.grad.tolist() == [[0.5, 0.5]]
for group in (
    dist.new_group(backend="gloo"),
    dist.new_group([0, 1], backend="cpu:gloo"),
    dist.device_mesh.init_device_mesh("cpu", (2,)).get_group(),
):
    assert "byteps" in type(group).__module__
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=group)
    assert tensor.item() == 2
dist.destroy_process_group()
dist.init_process_group()  # on a machine without a GPU this is gloo, too
assert "byteps" in type(dist.distributed_c10d._get_default_group()).__module__
dist.barrier()  # rank 0 has torch's store
dist.destroy_process_group()
print("all right", flush=True)
