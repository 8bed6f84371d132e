"""A script as Horovod's documentation shows them, with the import changed: the operations."""

import torch

import byteps.torch as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()
assert hvd.is_initialized()
assert not hvd.mpi_built()
assert hvd.local_rank() + hvd.cross_rank() * hvd.local_size() == rank

tensor = torch.tensor([1.0, 2.0]) * rank
assert torch.allclose(hvd.allreduce(tensor), torch.tensor([1.0, 2.0]) * (size - 1) / 2)
assert hvd.allreduce(tensor, op=hvd.Max)[0].item() == size - 1
handles = [hvd.allreduce_async(tensor, name=f"t{i}", op=hvd.Sum) for i in range(4)]
while not all(hvd.poll(handle) for handle in handles):
    pass
for handle in handles:
    assert hvd.synchronize(handle)[0].item() == sum(range(size))

one, two = hvd.grouped_allreduce([tensor, torch.ones(3)], op=hvd.Sum, name="pair")
assert two.tolist() == [float(size)] * 3

assert hvd.allgather(torch.full((rank + 1,), rank)).tolist() == [
    r for r in range(size) for _ in range(r + 1)
]
assert hvd.broadcast(tensor, root_rank=size - 1)[0].item() == size - 1
received, counts = hvd.alltoall(torch.arange(size) + 10 * rank, splits=torch.ones(size).int())
assert received.tolist() == [10 * r + rank for r in range(size)]
assert counts.tolist() == [1] * size
assert hvd.reducescatter(torch.ones(size, 2), op=hvd.Sum).tolist() == [[float(size)] * 2]

evens = hvd.add_process_set(range(0, size, 2)) if size > 2 else hvd.global_process_set
if evens.included():
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=evens).item() == evens.size()
if size > 2:
    assert hvd.remove_process_set(evens)
hvd.barrier()

try:
    hvd.allreduce(torch.ones(2 + rank), name="wrong")
    assert size == 1
except hvd.HorovodInternalError as error:
    assert "wrong" in str(error)  # noqa: PT017

# Uneven data: ranks that have finished join.
for step in range(rank + 1):
    mean = hvd.allreduce(torch.ones(1), name="uneven")
    assert abs(mean.item() - (size - step) / size) < 1e-6
last = hvd.join()
assert 0 <= last < size
hvd.shutdown()
print("all right")
