"""A script as Horovod's documentation shows them, with the import changed: sets given to init."""

import torch

import byteps.torch as hvd

# How many there are is known before init, as it is to a program that is written for four.
hvd.init()
rank, size = hvd.rank(), hvd.size()
hvd.shutdown()

even_set = hvd.ProcessSet(range(0, size, 2))
odd_set = hvd.ProcessSet(range(1, size, 2))
assert even_set.process_set_id is None
hvd.init(process_sets=[even_set, odd_set] if size > 1 else [])
if size == 1:
    even_set = odd_set = hvd.global_process_set
assert str(hvd.global_process_set).startswith("ProcessSet(process_set_id=0, ranks=[0")
assert hvd.global_process_set.size() == size

mine, other = (even_set, odd_set) if rank % 2 == 0 else (odd_set, even_set)
peers = list(range(rank % 2, size, 2))
root = peers[-1]
place = peers.index(rank)
assert mine.included()
assert mine.ranks == peers
assert (mine.rank(), mine.size()) == (place, len(peers))

# The two sets work at the same time, under the same names.
for _ in range(3):
    tensor = torch.arange(6.0) + rank
    result = hvd.allreduce(tensor, name="a", op=hvd.Sum, process_set=mine)
    assert torch.equal(result, len(peers) * torch.arange(6.0) + sum(peers))
    result = hvd.allreduce(tensor, name="a", process_set=mine)
    assert torch.allclose(result, torch.arange(6.0) + sum(peers) / len(peers))
    handle = hvd.allgather_async(torch.full((place + 1, 2), rank), name="b", process_set=mine)
    gathered = hvd.synchronize(handle)
    assert gathered[:, 0].tolist() == [r for i, r in enumerate(peers) for _ in range(i + 1)]
    # The root is a rank of the whole job.
    assert hvd.broadcast(torch.tensor([rank]), root, name="c", process_set=mine).item() == root
    tensor = torch.tensor([rank])
    assert hvd.broadcast_(tensor, root_rank=root, name="d", process_set=mine) is tensor
    assert tensor.item() == root
    first, second = hvd.grouped_allreduce(
        [torch.ones(2), torch.ones(3)], name="e", op=hvd.Sum, process_set=mine
    )
    assert first.tolist() + second.tolist() == [float(len(peers))] * 5
    sent = torch.arange(len(peers)) + 100 * rank
    splits = torch.ones(len(peers), dtype=torch.int32)
    received, received_splits = hvd.alltoall(sent, splits=splits, name="f", process_set=mine)
    assert received.tolist() == [100 * peer + place for peer in peers]
    assert received_splits.tolist() == [1] * len(peers)
    rows = torch.ones(2 * len(peers), 3)
    scattered = hvd.reducescatter(rows, op=hvd.Sum, name="g", process_set=mine)
    assert scattered.tolist() == [[float(len(peers))] * 3] * 2
    found = hvd.broadcast_object({"rank": rank}, root_rank=root, name="h", process_set=mine)
    assert found == {"rank": root}
    hvd.barrier(process_set=mine)

if size > 1:
    # A set that this rank is not in refuses it, and nobody is disturbed by that.
    try:
        hvd.allreduce(torch.ones(1), name="not mine", process_set=other)
    except ValueError as error:
        assert "not mine" in str(error) or "process set" in str(error), error  # noqa: PT017
    else:
        raise AssertionError("an operation of a set of others")
    try:
        other.rank()
    except ValueError:
        pass
    else:
        raise AssertionError("a rank in a set of others")
    # A model of the even ranks: the others take their own steps.
    model = torch.nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.fill_(1.0)
        model.bias.fill_(0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), process_set=even_set
    )
    model(torch.full((1, 2), float(rank))).sum().backward()
    optimizer.step()
    evens = list(range(0, size, 2))
    gradient = sum(evens) / len(evens) if rank in evens else float(rank)
    assert torch.allclose(model.weight, torch.full((1, 2), 1 - 0.5 * gradient))

assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == size
hvd.shutdown()
print("all right")
