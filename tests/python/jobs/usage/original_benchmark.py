"""A script in the style of the original's examples: a synthetic benchmark."""

import timeit

import torch

import byteps.torch as bps

bps.init()
torch.set_num_threads(1)

model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(6)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
compression = bps.Compression.fp16
optimizer = bps.DistributedOptimizer(
    optimizer,
    named_parameters=model.named_parameters(),
    compression=compression,
    backward_passes_per_step=2,
)
bps.broadcast_parameters(model.state_dict(), root_rank=0)
bps.broadcast_optimizer_state(optimizer, root_rank=0)
data, target = torch.randn(32, 64), torch.randn(32, 64)


def benchmark_step() -> None:
    optimizer.zero_grad()
    for _ in range(2):
        torch.nn.functional.mse_loss(model(data), target).backward()
    optimizer.step()


timeit.timeit(benchmark_step, number=2)
rates = []
for _ in range(3):
    rates.append(32 * 5 / timeit.timeit(benchmark_step, number=5))
total = bps.push_pull(torch.tensor(sum(rates) / len(rates)), average=False, name="rate")
if bps.rank() == 0:
    print(f"{bps.size()} workers: {total.item():.0f} samples per second")
end_ms, megabytes_per_second = bps.get_pushpull_speed()
assert end_ms > 0 or bps.size() == 1
optimizer.set_backward_passes_per_step(1)
print("all right")
