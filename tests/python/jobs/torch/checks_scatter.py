"""reducescatter, alltoall and their groups."""

from __future__ import annotations

from functools import partial

import torch
from checks_gather import TYPES
from checks_mismatch import expect

import byteps.torch as bps


def part(rows: int, rank: int, size: int) -> slice:
    counts = [rows // size + (r < rows % size) for r in range(size)]
    begin = sum(counts[:rank])
    return slice(begin, begin + counts[rank])


def check_reducescatter(rank: int, size: int) -> None:
    total = sum(range(1, size + 1))
    for rows in (0, 1, size, size + 1, 3 * size, 1000):
        base = torch.arange(rows * 3.0).reshape(rows, 3)
        mine = part(rows, rank, size)
        result = bps.reducescatter(base * (rank + 1), name=f"rows {rows}", op=bps.Sum)
        assert torch.equal(result, base[mine] * total), (rows, result)
    base = torch.arange(size + 1.0)
    for op, factor in {bps.Average: total / size, bps.Min: 1, bps.Max: size}.items():
        result = bps.reducescatter(base * (rank + 1), name=f"scatter {op.name}", op=op)
        assert torch.allclose(result, base[part(size + 1, rank, size)] * factor)
    scaled = bps.reducescatter(
        torch.ones(size), op=bps.Sum, prescale_factor=2.0, postscale_factor=0.25
    )
    assert scaled.tolist() == [size / 2]
    handle = bps.reducescatter_async(torch.ones(2 * size, 2).t().contiguous().t(), op=bps.Sum)
    assert bps.synchronize(handle).tolist() == [[size, size]] * 2
    small = bps.reducescatter(torch.ones(size), op=bps.Sum, compression=bps.Compression.bf16)
    assert small.dtype == torch.float32
    expect(bps.InvalidArgumentError, partial(bps.reducescatter, torch.tensor(1.0)), "no rows")


def check_grouped_reducescatter(rank: int, size: int) -> None:
    tensors = [
        torch.full((size + 1, 2), float(rank + 1)),
        torch.full((2,), rank + 1, dtype=torch.int64),
        torch.full((0, 5), 1.0),
        torch.full((3 * size,), rank + 1.0),
    ]
    total = sum(range(1, size + 1))
    for results in (
        bps.grouped_reducescatter(tensors, name="scattered group", op=bps.Sum),
        bps.synchronize(bps.grouped_reducescatter_async(tensors, op=bps.Sum)),
    ):
        for tensor, result in zip(tensors, results, strict=True):
            rows = part(len(tensor), rank, size)
            assert torch.equal(result, torch.full_like(tensor[rows], total)), result
    assert bps.grouped_reducescatter([]) == []


def check_backward_one_output_at_a_time(rank: int, size: int) -> None:
    tensors = [torch.ones(size, 2, requires_grad=True) for _ in range(2)]
    outputs = bps.grouped_reducescatter(tensors, name="one at a time", op=bps.Sum)
    for tensor, output in zip(tensors, outputs, strict=True):
        (output * (rank + 1)).sum().backward()
        expected = torch.arange(1.0, size + 1)[:, None].expand(size, 2)
        assert torch.equal(tensor.grad, expected)


def check_alltoall(rank: int, size: int) -> None:
    for dtype in TYPES:
        rows = torch.tensor([[(rank + r) % 2, 1] for r in range(size)]).to(dtype)
        result = bps.alltoall(rows, name=f"all to all {dtype}")
        assert result.dtype == dtype
        expected = torch.tensor([[(r + rank) % 2, 1] for r in range(size)]).to(dtype)
        assert torch.equal(result, expected)
    for step in range(2):  # under one name, with other splits each time
        # Rank r gives rank k (r + k + step) % 3 rows with its number.
        splits = [(rank + k + step) % 3 for k in range(size)]
        tensor = torch.full((sum(splits), 2), float(rank))
        given = torch.tensor(splits, dtype=torch.int32) if step else splits
        rows, counts = bps.alltoall(tensor, splits=given, name="uneven all to all")
        expected_counts = [(r + rank + step) % 3 for r in range(size)]
        assert counts.tolist() == expected_counts
        assert counts.dtype == torch.int32
        assert rows[:, 0].tolist() == [r for r in range(size) for _ in range(expected_counts[r])]
    for splits in (None, [2] * size):  # a handle gives the counts without splits, too
        rows, counts = bps.synchronize(bps.alltoall_async(torch.arange(2 * size), splits))
        assert rows.tolist() == [2 * rank, 2 * rank + 1] * size
        assert counts.tolist() == [2] * size
        assert counts.dtype == torch.int32
    nothing = bps.alltoall(torch.empty(0, 3), splits=[0] * size, name="nothing to all")
    assert nothing[0].shape == (0, 3)


def check_bad_splits(rank: int, size: int) -> None:
    ones = torch.ones(size)
    for splits in ([2] * size, [1] * (size + 1), [-1, *[1] * (size - 1)], torch.ones(size)):
        call = partial(bps.alltoall, ones, splits=splits, name="bad splits")
        expect(bps.InvalidArgumentError, call, "splits")
    if size > 1:
        expect(bps.InvalidArgumentError, partial(bps.alltoall, torch.ones(size + 1)), "without")


def check_gradients(rank: int, size: int) -> None:
    tensor = torch.ones(size + 1, 2, dtype=torch.float64, requires_grad=True)
    for op, factor in ((bps.Sum, 1.0), (bps.Average, 1.0 / size)):
        tensor.grad = None
        result = bps.reducescatter(tensor, name=f"scatter gradient {op.name}", op=op)
        (result * (rank + 1)).sum().backward()
        owners = [r for r in range(size) for _ in range(*part(size + 1, r, size).indices(size + 1))]
        expected = torch.tensor([[(r + 1) * factor] * 2 for r in owners], dtype=torch.float64)
        assert torch.allclose(tensor.grad, expected)
    rows = torch.ones(2 * size, requires_grad=True)
    splits = [2] * size
    result, _ = bps.alltoall(rows, splits=splits, name="all to all gradient")
    (result * (rank + 1)).sum().backward()
    assert rows.grad.tolist() == [r + 1 for r in range(size) for _ in range(2)]
    group = [torch.ones(size, requires_grad=True), torch.ones(2 * size, requires_grad=True)]
    parts = bps.grouped_reducescatter(group, name="grouped scatter gradient", op=bps.Sum)
    (parts[0].sum() + 3 * parts[1].sum()).backward()
    assert group[0].grad.tolist() == [1.0] * size
    assert group[1].grad.tolist() == [3.0] * 2 * size
