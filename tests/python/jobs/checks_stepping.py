"""DistributedOptimizer where ranks have computed different things before they step."""

from __future__ import annotations

import torch

import byteps.torch as bps


def parameters(count: int) -> list[torch.Tensor]:
    return [torch.nn.Parameter(torch.ones(2, dtype=torch.float64)) for _ in range(count)]


def wrapped(weights: list[torch.Tensor], **options: object):
    optimizer = torch.optim.SGD(weights, lr=1.0)
    return bps.DistributedOptimizer(optimizer, enumerated(weights), **options)


def enumerated(weights: list[torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
    return [(f"stepping{i}", weight) for i, weight in enumerate(weights)]


def check_scaler_and_a_group(rank: int, size: int) -> None:
    """Rank 0 uses the whole group, and has sent it; the others have nothing on its way."""
    for clips in (True, False):
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        both = parameters(2)
        optimizer = wrapped(both, num_groups=1)
        loss = both[0].sum() * (rank + 1)
        if rank == 0:
            loss = loss + both[1].sum() * size
        scaler.scale(loss).backward()
        means = [sum(range(1, size + 1)) / size, 1.0]
        if clips:
            scaler.unscale_(optimizer)
            assert [weight.grad.tolist() for weight in both] == [[mean] * 2 for mean in means]
        scaler.step(optimizer)
        scaler.update()
        for weight, mean in zip(both, means, strict=True):
            assert torch.allclose(weight, 1.0 - torch.full_like(weight, mean))


def check_scaler_and_half_an_accumulation(rank: int, size: int) -> None:
    """The last batch of an epoch is odd, and on rank 0 it overflows; the last rank has none."""
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    (weight,) = weights = parameters(1)
    optimizer = wrapped(weights, backward_passes_per_step=2)
    for factor, scale in ((float("inf"), 4.0), (1.0, 4.0)):
        optimizer.zero_grad()
        loss = scaler.scale(weight.sum() * (factor if rank == 0 else 1.0))
        if rank == 0 or rank < size - 1:
            loss.backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == scale
    assert torch.allclose(weight, 1.0 - torch.full_like(weight, max(size - 1, 1) / size))


def check_dropped_accumulation(rank: int, size: int) -> None:
    """Some ranks have begun an accumulation and drop it."""
    (weight,) = weights = parameters(1)
    optimizer = wrapped(weights, backward_passes_per_step=2)
    for epoch in range(3):
        for _ in range(2):
            (weight.sum() * (rank + 1)).backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank % 2 == 0:
            weight.sum().backward()
        optimizer.zero_grad()
        moved = 2 * (epoch + 1) * sum(range(1, size + 1)) / size
        assert torch.allclose(weight, 1.0 - torch.full_like(weight, moved))


def check_line_search(rank: int, size: int) -> None:
    """Every rank has its own valley; all go to the bottom of the sum of them."""
    weight = torch.nn.Parameter(torch.tensor([4.0, -3.0], dtype=torch.float64))
    inner = torch.optim.LBFGS([weight], lr=1.0, max_iter=20, line_search_fn="strong_wolfe")
    optimizer = bps.DistributedOptimizer(inner, [("valley", weight)])

    def loss_at(place: torch.Tensor, r: int) -> torch.Tensor:
        return ((place - r) ** 2 * (1 + r)).sum() + ((place - r) ** 4).sum()

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_at(weight, rank)
        loss.backward()
        return loss

    start = sum(loss_at(weight.detach(), r) for r in range(size)) / size
    assert torch.allclose(optimizer.step(closure), start)
    rows = bps.allgather(weight.detach()[None])
    assert all(torch.equal(row, rows[0]) for row in rows)
    place = weight.detach().requires_grad_()
    sum(loss_at(place, r) for r in range(size)).backward()
    assert place.grad.abs().max() < 1e-3
