"""A script as Horovod's documentation shows them, with the import changed: the rarer calls."""

import json
import tempfile
from pathlib import Path

import torch

import byteps.torch as hvd

hvd.init()
torch.set_num_threads(1)
rank, size = hvd.rank(), hvd.size()
ranks = range(size)

# Groups: as one, in place, asynchronous; of several types and shapes.
tensors = [torch.full((i + 1,), rank + i, dtype=torch.float64) for i in range(4)]
for i, result in enumerate(hvd.grouped_allreduce(tensors, average=False, name="group")):
    assert result.tolist() == [float(sum(ranks) + size * i)] * (i + 1)
same = hvd.grouped_allreduce_(tensors, op=hvd.Average, name="in place")
assert all(a is b for a, b in zip(same, tensors, strict=True))
assert tensors[0].item() == sum(ranks) / size
mixed = [torch.ones(2, dtype=torch.float16), torch.tensor([rank], dtype=torch.int64)]
handle = hvd.grouped_allreduce_async(mixed, op=hvd.Sum, name="mixed")
assert not isinstance(handle, torch.Tensor)
ones, numbers = hvd.synchronize(handle)
assert (ones.dtype, ones.tolist()) == (torch.float16, [float(size)] * 2)
assert (numbers.dtype, numbers.item()) == (torch.int64, sum(ranks))
whole, parts = hvd.grouped_allgather([torch.ones(1), torch.full((rank, 2), rank)], name="both")
assert whole.tolist() == [1.0] * size
assert parts.shape == (sum(ranks), 2)
halves = hvd.grouped_reducescatter([torch.ones(2 * size), torch.ones(size, 3)], op=hvd.Sum)
assert [tuple(half.shape) for half in halves] == [(2,), (1, 3)]

# Splits: rank r sends r + 1 rows to everybody, and nothing to itself.
splits = torch.tensor([0 if peer == rank else rank + 1 for peer in ranks], dtype=torch.int32)
sent = torch.full((int(splits.sum()), 2), float(rank), requires_grad=True)
received, received_splits = hvd.alltoall(sent, splits=splits, name="uneven")
assert received_splits.tolist() == [0 if peer == rank else peer + 1 for peer in ranks]
assert received[:, 0].tolist() == [p for p in ranks for _ in range(p + 1) if p != rank]
received.sum().backward()
assert sent.grad is not None
assert torch.equal(sent.grad, torch.ones_like(sent))
output, counts = hvd.synchronize(hvd.alltoall_async(torch.arange(2 * size), name="even"))
assert counts.tolist() == [2] * size
assert output.tolist() == [2 * rank, 2 * rank + 1] * size
for wrong in (torch.ones(size + 1, dtype=torch.int32), torch.full((size,), 9, dtype=torch.int32)):
    try:
        hvd.alltoall(torch.ones(3), splits=wrong, name="wrong splits")
    except ValueError:
        continue
    raise AssertionError(f"splits {wrong}")

# Rows that cannot be shared equally: the first ranks get one more.
rows = torch.arange(2.0 * size + 1).repeat(2, 1).t().contiguous()
part = hvd.reducescatter(rows, op=hvd.Average, name="rows")
assert part.shape == (3 if rank == 0 else 2, 2)
assert part[0, 0].item() == 0 if rank == 0 else 2 * rank + 1
scaled = hvd.reducescatter(rows, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0, name="s")
assert torch.allclose(scaled, part * 2 * size)

# Factors, extremes, products, the positional form.
tensor = torch.tensor([1.0 + rank, 2.0])
result = hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.25)
assert torch.allclose(result, torch.tensor([sum(r + 1 for r in ranks) / 2, float(size)]))
assert hvd.allreduce(tensor, op=hvd.Min)[0].item() == 1.0
assert hvd.allreduce(tensor, op=hvd.Max)[0].item() == float(size)
assert hvd.allreduce(tensor, op=hvd.Product)[1].item() == 2.0**size
assert hvd.allreduce(tensor, False, "positional", hvd.Compression.fp16)[1].item() == 2.0 * size
assert hvd.allreduce_(tensor, name="own") is tensor

# What is refused is refused before anything is sent, on every rank.
model = torch.nn.Linear(2, 2)
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
for refused in (
    lambda: hvd.allreduce(torch.ones(1), op=hvd.Adasum),
    lambda: hvd.DistributedOptimizer(sgd, model.named_parameters(), op=hvd.Adasum),
):
    try:
        refused()
    except NotImplementedError as error:
        assert "Adasum" in str(error)  # noqa: PT017
    else:
        raise AssertionError("Adasum")
try:
    hvd.elastic.run(lambda state: None)
except AttributeError as error:
    assert "--min-np" in str(error)  # noqa: PT017
else:
    raise AssertionError("elastic training")

# Statistics of the joined batch: batches may have different sizes.
joined = torch.randn(sum(2 + r for r in ranks), 3, generator=torch.Generator().manual_seed(1))
mine = joined.split([2 + r for r in ranks])[rank].clone().requires_grad_()
whole = joined.clone().requires_grad_()
layer, right = hvd.SyncBatchNorm(3), torch.nn.BatchNorm1d(3)
result, expected = layer(mine), right(whole)
assert torch.allclose(result, expected.split([2 + r for r in ranks])[rank], atol=1e-5)
assert torch.allclose(layer.running_var, right.running_var, atol=1e-5)
result.pow(3).sum().backward()
expected.pow(3).sum().backward()
assert torch.allclose(mine.grad, whole.grad.split([2 + r for r in ranks])[rank], atol=1e-4)
layer.eval()
assert layer(mine).shape == mine.shape

# A timeline that is started and stopped by the program.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "timeline.json"
    hvd.start_timeline(str(path))
    hvd.allreduce(torch.ones(4), name="seen")
    hvd.stop_timeline()
    if rank == 0:
        events = json.loads(path.read_text())
        assert any(event.get("args", {}).get("name") == "seen" for event in events), events
print("all right")
