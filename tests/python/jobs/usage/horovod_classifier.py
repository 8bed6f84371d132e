"""A script as Horovod's documentation shows them, with the import changed: a classifier."""

import torch
import torch.nn.functional as F  # noqa: N812

import byteps.torch as hvd

hvd.init()
torch.set_num_threads(1)
torch.manual_seed(42)

# A task that can be learned: which quarter of the plane a point is in.
inputs = torch.randn(512, 2)
labels = (inputs[:, 0] > 0).long() * 2 + (inputs[:, 1] > 0).long()
dataset = torch.utils.data.TensorDataset(inputs, labels)
sampler = torch.utils.data.distributed.DistributedSampler(
    dataset, num_replicas=hvd.size(), rank=hvd.rank()
)
loader = torch.utils.data.DataLoader(dataset, batch_size=32, sampler=sampler)

model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * hvd.size(), momentum=0.5)

hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
compression = hvd.Compression.fp16
optimizer = hvd.DistributedOptimizer(
    optimizer,
    named_parameters=model.named_parameters(),
    compression=compression,
    op=hvd.Average,
    gradient_predivide_factor=1.0,
)


def metric_average(value: torch.Tensor, name: str) -> float:
    return hvd.allreduce(value.detach().clone(), name=name).item()


for epoch in range(6):
    model.train()
    sampler.set_epoch(epoch)
    for data, target in loader:
        optimizer.zero_grad()
        output = model(data)
        loss = F.cross_entropy(output, target)
        loss.backward()
        optimizer.step()
    correct = (model(inputs).argmax(1) == labels).float().mean()
    accuracy = metric_average(correct, "avg_accuracy")
    if hvd.rank() == 0:
        print(f"epoch {epoch}: accuracy {accuracy:.3f}", flush=True)

assert accuracy > 0.9, accuracy
print("all right")
