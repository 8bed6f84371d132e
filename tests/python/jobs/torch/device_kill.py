"""A worker of three with tensors on a device: rank 0 is killed in the middle of its copies. The
others go on with two, and leave nothing of the device behind. Runs under on_a_device.py.
"""

from __future__ import annotations

import os
import signal

import checks
import stand_in
import torch

import byteps.torch as bps
from byteps.common.session import default

COUNT = 100_000
TENSORS = 8

device = stand_in.current()
before = device.counts()
bps.init()
rank = bps.rank()
for step in range(3):
    tensors = [torch.full((COUNT,), float(rank + 1)) for _ in range(TENSORS)]
    names = [f"tensor.{i}" for i in range(TENSORS)]
    if rank == 0 and step == 1:
        device.late(1, 200_000)  # so its copies take long
    handles = [
        bps.allreduce_async_(tensor, name=name, op=bps.Sum)
        for tensor, name in zip(tensors, names, strict=True)
    ]
    if rank == 0 and step == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    for tensor, handle in zip(tensors, handles, strict=True):
        bps.synchronize(handle)
        expected = {0: [6.0], 1: [5.0, 6.0], 2: [5.0]}[step]  # of three or of two
        assert tensor[0].item() in expected, (step, tensor[0].item())
        assert bool((tensor == tensor[0]).all())
    checks.ran += 1
bps.shutdown()
default._leave_for_good()  # the session keeps its lines until it is closed
del tensors, tensor, handles
after = device.counts()
left = (after.contexts, after.streams, after.events)
assert left == (before.contexts, before.streams, 0), left
assert after.pinned_bytes == device.pinned_bytes, "only what the test itself has"
assert after.pageable_copies == 0
print(f"all right {rank}")
