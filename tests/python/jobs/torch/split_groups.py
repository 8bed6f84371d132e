"""A worker: groups in which byteps and gloo serve different devices.

No test has a GPU. So byteps gets the device that is missing, and gloo the tensors; and once the
other way round.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

import byteps.torch as bps

GLOO_GATHERS_INTO_TENSORS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 3)


def check(group: dist.ProcessGroup, rank: int) -> None:
    tensor = torch.tensor([rank + 1.0])
    dist.all_reduce(tensor, group=group)
    assert tensor.item() == 3
    dist.broadcast(tensor.fill_(rank), 1, group=group)
    assert tensor.item() == 1
    both = [torch.zeros(1), torch.zeros(1)]
    dist.all_gather(both, torch.tensor([float(rank)]), group=group)
    assert [one.item() for one in both] == [0, 1]
    if GLOO_GATHERS_INTO_TENSORS:
        joined = torch.zeros(2)
        dist.all_gather_into_tensor(joined, torch.tensor([float(rank)]), group=group)
        assert joined.tolist() == [0, 1]
    if rank == 0:
        dist.send(torch.tensor([7.0]), 1, group=group)
    else:
        dist.recv(tensor, 0, group=group)
        assert tensor.item() == 7
    objects = [None, None]
    dist.all_gather_object(objects, {"rank": rank}, group=group)
    assert objects == [{"rank": 0}, {"rank": 1}]
    work = dist.all_reduce(tensor.fill_(rank), group=group, async_op=True)
    work.wait()
    assert tensor.item() == 1
    dist.barrier(group=group)


bps.init()
for backend, calls in (("cuda:byteps,cpu:gloo", 1), ("cpu:byteps,cuda:gloo", 9)):
    dist.init_process_group(backend)
    world = dist.distributed_c10d._get_default_group()
    check(world, bps.rank())
    # The barrier is byteps' in any case.
    assert (world._channel._call == 1) == (calls == 1), world._channel._call
    group = dist.new_group([0, 1])
    check(group, bps.rank())
    dist.destroy_process_group(group)
    dist.destroy_process_group()
print("all right", flush=True)
