"""A user's program for torch, as a checker of types sees it. Never run."""

import torch

import byteps.torch as bps

bps.init()
model = torch.nn.Linear(4, 1)
optimizer = bps.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.1),
    named_parameters=model.named_parameters(),
    compression=bps.Compression.fp16,
    op=bps.Average,
)
bps.broadcast_parameters(model.state_dict(), root_rank=0)
loss = bps.allreduce(torch.ones(3), name="loss", op=bps.Max)
handle = bps.push_pull_async(torch.ones(3), name="other")
bps.synchronize(handle)
some = bps.add_process_set([0, 1])
total: int = bps.rank() + bps.size() + some.size()
try:
    bps.join()
except bps.PeerLostError as error:
    print(str(error))

bps.rank("0")  # type: ignore[call-arg]
bps.allreduce(torch.ones(3), nmae="loss")  # type: ignore[call-arg]
bps.allreduce(torch.ones(3), name=3)  # type: ignore[arg-type]
bps.all_reduce(torch.ones(3))  # type: ignore[attr-defined]
text: str = bps.size()  # type: ignore[assignment]
