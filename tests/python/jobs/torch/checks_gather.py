"""The allgather family and objects."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch_features import has_fused

import byteps.torch as bps

TYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16,
    torch.int32, torch.int64, torch.uint8, torch.bool,
)  # fmt: skip


def check_types(rank: int, size: int) -> None:
    for dtype in TYPES:
        rows = bps.allgather(torch.full((1, 2), rank % 2).to(dtype), name=f"gather {dtype}")
        assert rows.dtype == dtype
        assert rows.tolist() == torch.tensor([[r % 2] * 2 for r in range(size)]).to(dtype).tolist()
        copied = bps.broadcast(torch.full((2,), rank % 2).to(dtype), size - 1, f"copy {dtype}")
        assert copied.tolist() == torch.full((2,), (size - 1) % 2).to(dtype).tolist()


def check_rows_differ(rank: int, size: int) -> None:
    for step in range(3):  # under one name, with other numbers of rows each time
        mine = torch.full((rank + step, 2), float(rank))
        rows = bps.allgather(mine, name="rows differ")
        expected = torch.cat([torch.full((r + step, 2), float(r)) for r in range(size)])
        assert torch.equal(rows, expected)
    assert bps.allgather(torch.ones(3, 2).t(), name="gather transposed").shape == (2 * size, 3)
    assert bps.allgather(torch.empty(0, 3), name="nobody has any").shape == (0, 3)
    assert bps.allgather(torch.tensor(float(rank))).tolist() == list(range(size))


def check_grouped(rank: int, size: int) -> None:
    for step in range(2):
        tensors = [
            torch.full((rank + step, 2), float(rank)),
            torch.tensor([rank, rank + 1], dtype=torch.int16),
            torch.tensor(rank % 2 == 0),
            torch.full((1,), rank, dtype=torch.uint8),
            torch.full((1, 3), rank + 0.5, dtype=torch.float64),
        ]
        results = bps.grouped_allgather(tensors, name="gathered group")
        for index, result in enumerate(results):
            assert result.dtype == tensors[index].dtype
        for r in range(size):
            assert results[1][2 * r : 2 * r + 2].tolist() == [r, r + 1]
        assert results[0].shape == (sum(r + step for r in range(size)), 2)
        assert results[2].tolist() == [r % 2 == 0 for r in range(size)]
        assert results[3].tolist() == list(range(size))
        assert results[4][:, 0].tolist() == [r + 0.5 for r in range(size)]
    handle = bps.grouped_allgather_async([torch.ones(1)])
    assert bps.synchronize(handle)[0].tolist() == [1.0] * size


def check_objects(rank: int, size: int) -> None:
    for root in range(size):
        mine = {"rank": rank, "text": "x" * 1000 * rank}
        assert bps.broadcast_object(mine, root)["rank"] == root
    for step in range(2):
        objects = bps.allgather_object({"rank": rank, "text": "y" * rank * step})
        assert [item["rank"] for item in objects] == list(range(size))
        assert [len(item["text"]) for item in objects] == [r * step for r in range(size)]
    assert bps.allgather_object(None, name="none") == [None] * size


def check_broadcast_forms(rank: int, size: int) -> None:
    root = size - 1
    tensor = torch.full((2, 2), float(rank))
    expected = torch.full((2, 2), float(root))
    assert torch.equal(bps.broadcast(tensor, root), expected)
    assert torch.equal(bps.synchronize(bps.broadcast_async(tensor, root)), expected)
    assert tensor[0, 0].item() == rank
    column = torch.full((2, 2), float(rank))
    bps.broadcast_(column[:, 1], root)
    assert column.tolist() == [[rank, root]] * 2
    assert bps.synchronize(bps.broadcast_async_(tensor, root)) is tensor
    assert torch.equal(tensor, expected)


def check_state(rank: int, size: int) -> None:
    """Every kind of option of today's optimizers goes from the root to all."""
    for make in (
        lambda p: torch.optim.SGD(p, lr=0.1 + rank, momentum=0.9, nesterov=True),
        lambda p: torch.optim.Adam(p, lr=torch.tensor(0.1 + rank), foreach=False, capturable=False),
        lambda p: torch.optim.AdamW(
            p, lr=0.1 + rank, amsgrad=True, fused=has_fused() and rank == 0
        ),
        lambda p: torch.optim.RMSprop(p, lr=0.1 + rank, centered=True),
        lambda p: torch.optim.NAdam(p, lr=0.1 + rank),
        lambda p: torch.optim.ASGD(p, lr=0.1 + rank),
    ):
        torch.manual_seed(rank)
        model = torch.nn.Linear(3, 2, dtype=torch.float64)
        optimizer = make(model.parameters())
        for _ in range(rank + 1 if rank else 1):
            optimizer.zero_grad()
            model(torch.randn(4, 3, dtype=torch.float64)).sum().backward()
            optimizer.step()
        bps.broadcast_optimizer_state(optimizer, 0, model=model)
        states = bps.allgather_object(
            (optimizer.state_dict()["param_groups"], optimizer.state_dict()["state"])
        )
        assert all(_equal(states[0], state) for state in states)
        assert abs(float(optimizer.param_groups[0]["lr"]) - 0.1) < 1e-6


class Decays(NamedTuple):
    first: float
    second: object


def check_options_with_names(rank: int, size: int) -> None:
    """A named tuple in a group, with and without a tensor."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)
    group = optimizer.param_groups[0]
    for mine, expected in ((rank, 0), (torch.tensor(rank), torch.tensor(0))):
        group["decays"] = Decays(0.5 + rank, (mine, [mine]))
        bps.broadcast_optimizer_state(optimizer, 0)
        assert optimizer.param_groups[0]["decays"] == Decays(0.5, (expected, [expected]))
        assert type(optimizer.param_groups[0]["decays"]) is Decays
        group = optimizer.param_groups[0]


def _equal(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor):
        if not isinstance(other, torch.Tensor) or one.dtype != other.dtype:
            return False
        return torch.equal(one, other)
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(_equal(one[key], other[key]) for key in one)
        )
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_equal, one, other))
    return one == other
