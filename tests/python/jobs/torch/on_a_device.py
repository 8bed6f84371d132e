"""A worker whose tensors lie in the memory of the stand-in for the CUDA driver.

Its stream runs late, so a copy that did not wait for it would find other bytes.
"""

from __future__ import annotations

import os

import torch
from stand_in import StandIn

import byteps.torch as bps
from byteps.torch import devices

COUNT = 100_000

bps.init()
rank, size = bps.rank(), bps.size()
stand_in = StandIn(os.environ["BYTEPS_CUDA_LIBRARY"], bps.local_rank() % 2)
devices.STREAMS["standin"] = lambda _: stand_in.stream
assert bps.cuda_built()

total = sum(range(1, size + 1))
tensors = [stand_in.tensor(COUNT + i) for i in range(5)]
assert {str(tensor.device) for tensor in tensors} == {f"standin:{stand_in.device}"}
stand_in.late(rank + 1, 20_000)
for step in range(3):
    handles = []
    for i, tensor in enumerate(tensors):
        stand_in.fill(tensor, (rank + 1) * (i + 1) * (step + 1))
        handles.append(bps.allreduce_async_(tensor, name=f"tensor.{i}", op=bps.Sum))
    for i, (tensor, handle) in enumerate(zip(tensors, handles, strict=True)):
        assert bps.synchronize(handle) is tensor
        expected = torch.full((COUNT + i,), float(total * (i + 1) * (step + 1)))
        assert torch.equal(stand_in.read(tensor), expected)

stand_in.fill(tensors[0], float(rank))
bps.broadcast_(tensors[0], root_rank=size - 1, name="root")
assert torch.equal(stand_in.read(tensors[0]), torch.full((COUNT,), float(size - 1)))

stand_in.fill(tensors[0], float(rank + 1))
bps.push_pull_inplace(tensors[0], average=True, name="average")
assert torch.equal(stand_in.read(tensors[0]), torch.full((COUNT,), total / size))

bps.shutdown()
print(f"all right {rank}/{size}", flush=True)
