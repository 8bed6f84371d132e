"""A worker where numpy is not installed: torch does without it, and so does byteps."""

import sys

sys.modules["numpy"] = None  # type: ignore[assignment]  # importing it fails

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import byteps.torch as bps  # noqa: E402

bps.init()
rank, size = bps.rank(), bps.size()
assert bps.broadcast_object({"epoch": 3} if rank == 0 else None) == {"epoch": 3}
assert bps.allgather_object([rank]) == [[r] for r in range(size)]
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.Adam(model.parameters())
bps.broadcast_optimizer_state(optimizer, root_rank=0)
dist.init_process_group("byteps")
total = torch.ones(1)
dist.all_reduce(total)
assert total.item() == size
dist.destroy_process_group()
print("all right")
