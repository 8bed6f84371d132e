"""A script as Horovod's documentation shows them, with the import changed: join and metrics."""

import torch
import torch.nn.functional as F  # noqa: N812

import byteps.torch as hvd

hvd.init()
torch.set_num_threads(1)
rank, size = hvd.rank(), hvd.size()
torch.manual_seed(7)

# Each rank has as much data as it has: rank 0 has the most.
TRUTH = torch.tensor([[2.0], [-1.0], [0.5]])
count = 24 + 16 * (size - rank)
inputs = torch.randn(count, 3, generator=torch.Generator().manual_seed(rank))
dataset = torch.utils.data.TensorDataset(inputs, inputs @ TRUTH)
loader = torch.utils.data.DataLoader(dataset, batch_size=8, shuffle=True)
lengths = hvd.allgather_object(len(loader), name="lengths")
assert lengths == [3 + 2 * (size - r) for r in range(size)]

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05 * size)
optimizer = hvd.DistributedOptimizer(
    optimizer, named_parameters=model.named_parameters(), op=hvd.Average
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
steps = 0
for epoch in range(12):
    model.train()
    total = torch.zeros(())
    for data, target in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(data), target)
        loss.backward()
        optimizer.step()
        steps += 1
        total += loss.detach()
    last = hvd.join()
    assert last == 0  # the rank that had the most
    # The rank that joined last has taken every step: its weights are the ones to go on with.
    hvd.broadcast_parameters(model.state_dict(), root_rank=last)
    hvd.broadcast_optimizer_state(optimizer, root_rank=last)

    # Ranks weigh as much as they have data.
    sums = hvd.allreduce(torch.stack([total, torch.tensor(float(len(loader)))]), op=hvd.Sum)
    mean_loss = (sums[0] / sums[1]).item()
    reports = hvd.allgather_object({"rank": rank, "epoch": epoch, "steps": steps}, name="report")
    assert [report["rank"] for report in reports] == list(range(size))
    assert {report["epoch"] for report in reports} == {epoch}
    if rank == 0:
        print(f"epoch {epoch}: loss {mean_loss:.5f}", flush=True)
    # The first rank decides whether to go on, and tells the others.
    if hvd.broadcast_object(mean_loss < 1e-3 if rank == 0 else None, root_rank=0, name="enough"):
        break

assert torch.allclose(model.weight, TRUTH.t(), atol=0.2), model.weight
weights = hvd.allgather(torch.cat([p.detach().flatten() for p in model.parameters()])[None])
assert all(torch.equal(row, weights[0]) for row in weights)

# After a join everything works again, also what nobody has called before; objects of many kinds.
for thing in (None, 5, "text", [1, 2], {"a": torch.ones(2)}, b"\0" * 70000):
    assert len(hvd.allgather_object(thing)) == size
    copy = hvd.broadcast_object(thing if rank == size - 1 else None, root_rank=size - 1)
    assert type(copy) is type(thing)
assert hvd.allgather_object("x" * rank, name="lengths") == ["x" * r for r in range(size)]
assert hvd.join() in range(size)
hvd.shutdown()
print("all right")
