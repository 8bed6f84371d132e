"""A script in the style of the original's examples: a benchmark with CrossBarrier."""

import timeit

import torch
import torch.nn.functional as F  # noqa: N812

import byteps.torch.cross_barrier as bps

bps.init()
torch.set_num_threads(1)
torch.manual_seed(bps.rank())

model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * bps.size(), momentum=0.9)
bps.broadcast_parameters(model.state_dict(), root_rank=0)
bps.broadcast_optimizer_state(optimizer, root_rank=0)
optimizer = bps.CrossBarrier(
    model,
    optimizer,
    named_parameters=model.named_parameters(),
    compression=bps.Compression.none,
    backward_passes_per_step=1,
    num_steps=40,
)
data = torch.randn(16, 1, 8, 8)
target = torch.randint(0, 10, (16,))
losses = []


def benchmark_step() -> None:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(data), target)
    losses.append(loss.item())
    loss.backward()
    optimizer.step()


timeit.timeit(benchmark_step, number=10)
seconds = timeit.timeit(benchmark_step, number=30)
if bps.rank() == 0:
    print(f"{16 * 30 * bps.size() / seconds:.0f} images per second")
assert losses[-1] < losses[0], losses
bps.shutdown()
print("all right")
