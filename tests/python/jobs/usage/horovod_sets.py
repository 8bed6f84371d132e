"""A script as Horovod's documentation shows them, with the import changed: sets, AMP, join."""

import torch

import byteps.torch as hvd

hvd.init(process_sets="dynamic")
torch.set_num_threads(1)
rank, size = hvd.rank(), hvd.size()

mine = hvd.global_process_set
if size > 2:
    even_set = hvd.add_process_set(hvd.ProcessSet(range(0, size, 2)))
    odd_set = hvd.add_process_set(hvd.ProcessSet(range(1, size, 2)))
    for process_set in (hvd.global_process_set, even_set, odd_set):
        assert process_set.included() == (rank in process_set.ranks)
    mine = even_set if even_set.included() else odd_set
assert mine.ranks[mine.rank()] == rank

# Each set trains a model of its own.
torch.manual_seed(mine.ranks[0])
model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
optimizer = hvd.DistributedOptimizer(
    optimizer, named_parameters=model.named_parameters(), process_set=mine
)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
first = last = None
for _ in range(40):
    optimizer.zero_grad()
    data = torch.randn(16, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(data)
    loss = torch.nn.functional.mse_loss(output.float(), data.sum(1, keepdim=True))
    scaler.scale(loss).backward()
    optimizer.synchronize()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    with optimizer.skip_synchronize():
        scaler.step(optimizer)
    scaler.update()
    last = hvd.allreduce(loss.detach(), name="loss", process_set=mine).item()
    first = last if first is None else first
assert last < first, (first, last)
weights = hvd.allgather(model[0].weight.detach()[None], name="weights", process_set=mine)
assert all(torch.equal(weight, weights[0]) for weight in weights)

# Together, with uneven data: ranks that have finished join.
model = torch.nn.Linear(2, 1)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
for _ in range(2 + rank):
    optimizer.zero_grad()
    model(torch.ones(4, 2)).pow(2).mean().backward()
    optimizer.step()
last_rank = hvd.join()
assert last_rank == size - 1
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
if size > 2:
    assert hvd.remove_process_set(odd_set)
print("all right")
