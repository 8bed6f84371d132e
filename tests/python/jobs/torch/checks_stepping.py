"""DistributedOptimizer where ranks have computed different things before they step."""

from __future__ import annotations

import torch
from checks_mismatch import expect
from torch_features import HAS_SCALER

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
    if not HAS_SCALER:
        return
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
    if not HAS_SCALER:
        return
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


def clip_norm(weights: list[torch.Tensor]) -> None:
    torch.nn.utils.clip_grad_norm_(weights, 0.5)


def clip_values(weights: list[torch.Tensor]) -> None:
    for weight in weights:
        weight.grad.data.clamp_(-0.5, 0.5)


def put_others(weights: list[torch.Tensor]) -> None:
    for weight in weights:
        weight.grad = weight.grad / weight.grad.norm()


def check_changes_after_backward(rank: int, size: int) -> None:
    """As in a script of one process: what is changed is the average, also without a word."""
    for compression in (bps.Compression.none, bps.Compression.fp16):
        for change in (clip_norm, clip_values, put_others):
            weights, alone = parameters(3), parameters(3)
            optimizer = wrapped(weights, compression=compression)
            optimizer.check_replicas_every(1)
            own = torch.optim.SGD(alone, lr=1.0)
            for step in range(3):
                optimizer.zero_grad()
                own.zero_grad()
                sum((w * (rank + 1 + i + step)).sum() for i, w in enumerate(weights)).backward()
                mean = (size + 1) / 2
                sum((w * (mean + i + step)).sum() for i, w in enumerate(alone)).backward()
                change(weights)
                change(alone)
                optimizer.step()
                own.step()
                for weight, expected in zip(weights, alone, strict=True):
                    assert torch.allclose(weight, expected, atol=1e-3)
            bps.check_replicas(enumerated(weights))


def check_changes_on_the_way(rank: int, size: int) -> None:
    """One rank has not used all: the gradients are on their way until the step. Who changes one is
    told so, and so are the others."""
    weights = parameters(2)
    optimizer = wrapped(weights)
    for _ in range(2):
        loss = weights[0].sum() if rank == size - 1 else weights[0].sum() + weights[1].sum()
        loss.backward()
        if rank == size - 1:
            clip_norm(weights)
        if size > 1:
            who = "this rank" if rank == size - 1 else "another rank"
            text = f"{who} changed the gradient of 'stepping0'"
            expect(bps.InvalidArgumentError, optimizer.step, text)
        optimizer.zero_grad()
    assert torch.equal(weights[0].detach(), torch.ones(2, dtype=torch.float64))
    sum(weight.sum() for weight in weights).backward()
    optimizer.step()
    bps.check_replicas(enumerated(weights))


def check_replicas_that_differ(rank: int, size: int) -> None:
    weights = parameters(3)
    model = torch.nn.ParameterList(weights)
    bps.check_replicas(model)
    bps.check_replicas(model.state_dict())
    bps.check_replicas([])
    if size == 1:
        return
    with torch.no_grad():
        weights[1][0] = torch.nan  # equal, as bits
        bps.check_replicas(model)
        if rank == 1:
            weights[1][1] += 1e-12
            weights[2][0] = 5.0
    text = "have different values of '1'"
    expect(bps.ReplicasDifferError, lambda: bps.check_replicas(model), text)


def check_replicas_while_training(rank: int, size: int) -> None:
    weights = parameters(2)
    optimizer = wrapped(weights)
    optimizer.check_replicas_every(2)
    for step in range(4):
        sum(weight.sum() for weight in weights).backward()
        if step == 3 and size > 1:
            with torch.no_grad():
                weights[1][1] += rank
            expect(bps.ReplicasDifferError, optimizer.step, "'stepping1'")
        else:
            optimizer.step()
        optimizer.zero_grad()
