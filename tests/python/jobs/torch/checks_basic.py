"""push_pull, broadcast, allgather, objects, receipts: results that are known in advance."""

from __future__ import annotations

import math

import pytest
import torch

import byteps.torch as bps

TYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
)


def check_sums(rank: int, size: int) -> None:
    ranks_sum = sum(range(1, size + 1))
    for dtype in TYPES:
        tensor = torch.arange(5).to(dtype) * (rank + 1)
        expected = torch.arange(5).to(dtype) * ranks_sum
        result = bps.push_pull(tensor, average=False, name=f"sum {dtype}")
        assert torch.equal(result, expected), (dtype, result)
    either = bps.push_pull(torch.tensor([rank == 0, False]), average=False, name="bool")
    assert either.tolist() == [True, False]


def check_averages(rank: int, size: int) -> None:
    mean = bps.push_pull(torch.tensor([float(rank)]), name="mean")
    assert mean.item() == (size - 1) / 2
    whole = bps.push_pull(torch.tensor([-1 if rank == 0 else 0]), name="whole mean")
    assert whole.item() == math.floor(-1 / size)


def check_shapes(rank: int, size: int) -> None:
    assert bps.push_pull(torch.empty(0, 3), name="empty").shape == (0, 3)
    assert bps.push_pull(torch.tensor(2.0), average=False, name="scalar").item() == 2.0 * size
    large = torch.full((1_000_003,), float(rank + 1))
    result = bps.push_pull(large, average=False, name="large")
    assert torch.equal(result, torch.full((1_000_003,), float(sum(range(1, size + 1)))))


def check_many_in_any_order(rank: int, size: int) -> None:
    numbers = list(range(50))
    order = numbers if rank % 2 == 0 else numbers[::-1]
    tensors = {n: torch.full((1000 + n,), float(n)) for n in numbers}
    handles = {
        n: bps.push_pull_async_inplace(tensors[n], average=False, name=f"many {n}", priority=-n)
        for n in order
    }
    for number in numbers:
        bps.synchronize(handles[number])
        assert torch.equal(tensors[number], torch.full((1000 + number,), float(number * size)))


def check_rounds(rank: int, size: int) -> None:
    for step in range(20):
        result = bps.push_pull(torch.tensor([step + rank]), average=False, name="round")
        assert result.item() == step * size + sum(range(size))


def check_broadcast(rank: int, size: int) -> None:
    payload = torch.tensor([0x7FC01234, -0x80000000, 1], dtype=torch.int64).to(torch.int32)
    bits = payload if rank == size - 1 else torch.full((3,), -1, dtype=torch.int32)
    result = bps.broadcast(bits.view(torch.float32), root_rank=size - 1, name="bits")
    assert torch.equal(result.view(torch.int32), payload)
    model = torch.nn.Linear(3, 2)
    bps.broadcast_parameters(model.state_dict(), root_rank=0)
    flat = torch.cat([p.detach().flatten() for p in model.parameters()]).unsqueeze(0)
    rows = bps.allgather(flat, "weights")
    assert all(torch.equal(row, rows[0]) for row in rows)


def check_objects(rank: int, size: int) -> None:
    for text in ("short", "a longer text " * 1000):
        mine = {"text": text} if rank == 0 else None
        assert bps.broadcast_object(mine) == {"text": text}
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.ones(2))], lr=0.1 * (rank + 1))
    if rank == 0:
        optimizer.param_groups[0]["params"][0].grad = torch.ones(2)
        optimizer.step()
    bps.broadcast_optimizer_state(optimizer, root_rank=0)
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert len(optimizer.state_dict()["state"]) == 1


def check_allgather(rank: int, size: int) -> None:
    rows = bps.allgather(torch.full((rank, 2), float(rank)), "rows")
    expected = torch.cat([torch.full((r, 2), float(r)) for r in range(size)])
    assert torch.equal(rows, expected), rows
    assert bps.allgather(torch.tensor(rank), "scalars").tolist() == list(range(size))


def check_receipts(rank: int, size: int) -> None:
    everybody = list(range(size))
    handle = bps.push_pull_async(torch.ones(10), name="receipt")
    bps.synchronize(handle)
    assert handle.members == everybody
    if torch.ones(1).device.type == "cpu":  # NCCL may add what GPUs have, in its own order
        assert handle.any_layout == bps.same_bits().floats
    counting = bps.push_pull_async(torch.ones(10, dtype=torch.int32), average=False, name="count")
    bps.synchronize(counting)
    assert counting.any_layout
    gathering = bps.allgather_async(torch.ones(rank + 1), "gathered receipt")
    bps.synchronize(gathering)
    assert bps.members_of(gathering) == everybody
    assert gathering.any_layout
    assert bps.members() == everybody


def check_atomic(rank: int, size: int) -> None:
    bps.declare("whole", atomic=True)
    for _ in range(2):
        tensor = torch.ones(3000)
        handle = bps.push_pull_async_inplace(tensor, average=False, name="whole")
        assert bps.synchronize(handle).tolist() == [size] * 3000
        assert handle.members == list(range(size))
    if rank == 0:
        bps.declare("whole here", atomic=True)
    if size > 1:
        with pytest.raises(bps.MismatchError, match="atomic"):
            bps.allreduce(torch.ones(2), name="whole here")


def check_gradient(rank: int, size: int) -> None:
    tensor = torch.ones(2, requires_grad=True)
    (bps.push_pull(tensor, average=False, name="gradient") * (rank + 1)).sum().backward()
    assert tensor.grad is not None
    assert tensor.grad.tolist() == [sum(range(1, size + 1))] * 2
