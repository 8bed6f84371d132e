"""A rank whose tensors lie on a GPU: each result must have the bits of the same operation on the
host. Several ranks may share one GPU."""

from __future__ import annotations

import torch

import byteps.torch as bps

TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64)
COUNTS = (1, 1000, 3_000_001)

bps.init()
device = torch.device("cuda", bps.local_rank() % torch.cuda.device_count())
torch.cuda.set_device(device)
generator = torch.Generator().manual_seed(bps.rank())
compared = 0


def values(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Return values that this rank brings."""
    return (torch.rand(count, generator=generator) * 100 - 50).to(dtype)


def same(name: str, mine: torch.Tensor, on_gpu: torch.Tensor, host: torch.Tensor) -> None:
    """Compare a result with that of the host."""
    global compared
    compared += 1
    if not torch.equal(on_gpu.cpu().view(torch.uint8), host.view(torch.uint8)):
        raise SystemExit(f"{name}: rank {bps.rank()} has other bits on {device} for {mine[:3]}")


for dtype in TYPES:
    for count in COUNTS:
        mine = values(count, dtype)
        for op in (bps.Sum, bps.Average, bps.Min, bps.Max, bps.Product):
            name = f"{op.name} {dtype} {count}"
            host = bps.allreduce(mine, name=f"host {name}", op=op)
            same(name, mine, bps.allreduce(mine.to(device), name=f"gpu {name}", op=op), host)
            tensor = mine.to(device)
            # The stream is busy when the operation begins, and writes the values last.
            busy = torch.ones(2000, 2000, device=device)
            for _ in range(20):
                busy = busy @ busy * 0.001
            tensor.copy_(mine.to(device) + (busy[0, 0] * 0).to(dtype))
            bps.allreduce_(tensor, name=f"in place {name}", op=op)
            same(f"in place {name}", mine, tensor, host)
        name = f"broadcast {dtype} {count}"
        host = bps.broadcast(mine, root_rank=bps.size() - 1, name=f"host {name}")
        same(name, mine, bps.broadcast(mine.to(device), bps.size() - 1, name=f"gpu {name}"), host)

model = torch.nn.Linear(300, 300).to(device)
twin = torch.nn.Linear(300, 300)
with torch.no_grad():
    for parameter, other in zip(model.parameters(), twin.parameters(), strict=True):
        other.copy_(parameter.cpu())
for one in (model, twin):
    bps.broadcast_parameters(one.state_dict(), root_rank=0)
bps.shutdown()
print(f"all right: {compared} results compared", flush=True)
