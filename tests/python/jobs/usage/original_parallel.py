"""A script in the style of the original's examples: DistributedDataParallel."""

import torch
import torch.nn.functional as F  # noqa: N812

import byteps.torch as bps
from byteps.torch.parallel import DistributedDataParallel as DDP  # noqa: N817

bps.init()
torch.set_num_threads(1)
torch.manual_seed(bps.rank())

inputs = torch.randn(256, 2, generator=torch.Generator().manual_seed(1))
labels = (inputs.prod(1) > 0).long()
dataset = torch.utils.data.TensorDataset(inputs, labels)
sampler = torch.utils.data.distributed.DistributedSampler(
    dataset, num_replicas=bps.size(), rank=bps.rank()
)
loader = torch.utils.data.DataLoader(dataset, batch_size=32, sampler=sampler)

model = torch.nn.Sequential(
    torch.nn.Linear(2, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Linear(32, 2)
)
model = DDP(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
bps.broadcast_optimizer_state(optimizer, root_rank=0)

for epoch in range(30):
    model.train()
    sampler.set_epoch(epoch)
    batches = list(loader)
    for number, (data, target) in enumerate(batches):
        if number % 2 == 0:
            optimizer.zero_grad()
            with model.no_sync():
                F.cross_entropy(model(data), target).backward()
            if number + 1 < len(batches):
                continue
        F.cross_entropy(model(data), target).backward()
        optimizer.step()
model.eval()
with torch.no_grad():
    accuracy = (model(inputs).argmax(1) == labels).float().mean()
accuracy = bps.push_pull(accuracy, name="avg_accuracy").item()
assert accuracy > 0.9, accuracy
weights = bps.push_pull(model.module[0].weight.detach(), name="weights")
assert torch.allclose(weights, model.module[0].weight)
print("all right")
