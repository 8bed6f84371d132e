"""A script in the style of the original's examples: operations by hand, suspend and resume."""

import os

import torch

import byteps.torch as bps
from byteps.torch.ops import push_pull_async, push_pull_async_inplace

bps.init()
rank, size = bps.rank(), bps.size()
for name in ("b", "a"):
    bps.declare(name)

gradients = {name: torch.full((1000,), float(rank)) for name in ("a", "b")}
handles = {
    name: bps.byteps_push_pull(gradient, average=True, name=name, priority=-i)
    for i, (name, gradient) in enumerate(gradients.items())
}
for name, handle in handles.items():
    assert bps.synchronize(handle) is gradients[name]
    assert gradients[name][0].item() == (size - 1) / 2

handle = push_pull_async(torch.ones(3), average=False, name="c")
while not bps.poll(handle):
    pass
assert bps.synchronize(handle).tolist() == [size] * 3
bps.synchronize(push_pull_async_inplace(torch.ones(3), name="d"))
assert bps.broadcast_object({"epoch": 3} if rank == 0 else None, root_rank=0) == {"epoch": 3}

bps.suspend()
bps.resume(int(os.environ.get("DMLC_NUM_WORKER", "1")), int(os.environ.get("DMLC_NUM_SERVER", "0")),
           rank)  # fmt: skip
assert bps.push_pull(torch.ones(2), average=False, name="a").tolist() == [size] * 2

# Clipping between the exchange and the step.
model = torch.nn.Linear(3, 1)
optimizer = bps.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=1.0), named_parameters=model.named_parameters()
)
bps.broadcast_parameters(model.state_dict(), root_rank=0)
model(torch.ones(2, 3)).sum().backward()
optimizer.synchronize()
torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
with optimizer.skip_synchronize():
    optimizer.step()
bps.shutdown()
print("all right")
