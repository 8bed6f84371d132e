"""A script as Horovod's documentation shows them, with the import changed: big batches in parts."""

import torch

import byteps.torch as hvd

BATCHES_PER_ALLREDUCE = 4

hvd.init()
torch.set_num_threads(1)
torch.manual_seed(hvd.rank())

model = torch.nn.Linear(4, 1)
truth = torch.tensor([[1.0, -2.0, 3.0, 0.5]])
scaler = torch.amp.GradScaler("cpu")
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
optimizer = hvd.DistributedOptimizer(
    optimizer,
    named_parameters=model.named_parameters(),
    backward_passes_per_step=BATCHES_PER_ALLREDUCE,
    num_groups=1,
)
start_step = hvd.broadcast_object(0 if hvd.rank() == 0 else None, root_rank=0, name="start")
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

for _ in range(start_step, 150):
    optimizer.zero_grad()
    for _ in range(BATCHES_PER_ALLREDUCE):
        data = torch.randn(8, 4)
        loss = (model(data) - data @ truth.t()).pow(2).mean() / BATCHES_PER_ALLREDUCE
        scaler.scale(loss).backward()
    # Gradients must be there before they are unscaled and clipped.
    optimizer.synchronize()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    with optimizer.skip_synchronize():
        scaler.step(optimizer)
    scaler.update()

losses = hvd.allgather(loss.detach().reshape(1), name="losses")
assert losses.shape == (hvd.size(),)
weights = hvd.allgather_object(model.weight.detach(), name="weights")
assert all(torch.equal(weight, weights[0]) for weight in weights)
assert torch.allclose(model.weight, truth, atol=0.3), model.weight
print("all right")
