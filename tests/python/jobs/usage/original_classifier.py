"""A script in the style of the original's examples: a classifier."""

import torch
import torch.nn.functional as F  # noqa: N812

import byteps.torch as bps

bps.init()
torch.set_num_threads(1)
torch.manual_seed(1)

inputs = torch.randn(512, 2)
labels = (inputs.pow(2).sum(1) > 1).long()
dataset = torch.utils.data.TensorDataset(inputs, labels)
sampler = torch.utils.data.distributed.DistributedSampler(
    dataset, num_replicas=bps.size(), rank=bps.rank()
)
loader = torch.utils.data.DataLoader(dataset, batch_size=64, sampler=sampler, num_workers=1)

model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01 * bps.size())
optimizer = bps.DistributedOptimizer(
    optimizer, named_parameters=model.named_parameters(), compression=bps.Compression.none
)
bps.broadcast_parameters(model.state_dict(), root_rank=0)
bps.broadcast_optimizer_state(optimizer, root_rank=0)


def metric_average(value: float, name: str) -> float:
    tensor = torch.tensor(value)
    averaged = bps.push_pull(tensor, name=name)
    return averaged.item()


for epoch in range(15):
    sampler.set_epoch(epoch)
    for data, target in loader:
        optimizer.zero_grad()
        loss = F.nll_loss(F.log_softmax(model(data), dim=1), target)
        loss.backward()
        optimizer.step()
    accuracy = (model(inputs).argmax(1) == labels).float().mean().item()
    accuracy = metric_average(accuracy, "avg_accuracy")

assert accuracy > 0.9, accuracy
print("all right")
