"""CrossBarrier: training equals training alone, whatever reads and updates the parameters."""

from __future__ import annotations

import copy
import gc
import threading
from pathlib import Path

import pytest
import torch
from torch_features import HAS_MUON, has_fused

import byteps.torch as bps
from byteps.common.errors import MismatchError
from byteps.torch.cross_barrier import CrossBarrier

EXACT = 1e-12
PATIENCE_S = 60.0


def network() -> torch.nn.Module:
    layers = [torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)]
    return torch.nn.Sequential(*layers).double()


def batches(size: int, steps: int = 6) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(4 * size, 6, generator=generator).double() for _ in range(steps)]


def difference(first: torch.nn.Module, second: torch.nn.Module) -> float:
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


MAKERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True, amsgrad=True),
    "fused": lambda p: torch.optim.Adam(p, lr=0.01, fused=has_fused()),
    "tensor as rate": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01), foreach=False),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "Adadelta": torch.optim.Adadelta,
    "Rprop": torch.optim.Rprop,
    "NAdam": torch.optim.NAdam,
    "RAdam": torch.optim.RAdam,
    "ASGD": torch.optim.ASGD,
    "Adamax": torch.optim.Adamax,
}
if hasattr(torch.optim, "Adafactor"):  # torch 2.5
    MAKERS["Adafactor"] = torch.optim.Adafactor


def check_cross_barrier(rank: int, size: int) -> None:
    torch.manual_seed(0)
    start = network()
    for kind, make in MAKERS.items():
        alone, model = copy.deepcopy(start), copy.deepcopy(start)
        expected, optimizer = make(alone.parameters()), make(model.parameters())
        optimizer = CrossBarrier(model, optimizer)
        assert isinstance(optimizer, type(expected))
        schedules = [torch.optim.lr_scheduler.StepLR(o, 2, 0.5) for o in (expected, optimizer)]
        for batch in batches(size):
            expected.zero_grad()
            alone(batch).pow(2).mean().backward()
            expected.step()
            optimizer.zero_grad()
            model(batch.chunk(size)[rank]).pow(2).mean().backward()
            optimizer.step()
            for schedule in schedules:
                schedule.step()
        state = model.state_dict()  # waits for the updates
        assert torch.allclose(state["0.weight"], alone[0].weight, rtol=0, atol=EXACT), kind
        optimizer.synchronize()
        assert difference(alone, model) < EXACT, kind
        ours, theirs = optimizer.state_dict(), expected.state_dict()
        assert ours["param_groups"] == theirs["param_groups"], kind
        assert ours["state"].keys() == theirs["state"].keys(), kind
        optimizer.load_state_dict(theirs)
    del optimizer, schedules, schedule
    gc.collect()
    for thread in [one for one in threading.enumerate() if one.name == "byteps-cross-barrier"]:
        thread.join(PATIENCE_S)  # it has been told to end, and may still be ending
        assert not thread.is_alive()
    assert not Path("cross_barrier.log").exists()


def check_cross_barriers_side_by_side(rank: int, size: int) -> None:
    """Two models whose parameters have equal names, on their way at the same time."""
    models = [torch.nn.Linear(3, 2), torch.nn.Linear(3, 4)]
    before = [model.weight.detach().clone() for model in models]
    optimizers = [CrossBarrier(m, torch.optim.SGD(m.parameters(), lr=0.1)) for m in models]
    for _ in range(3):
        for model, optimizer in zip(models, optimizers, strict=True):
            model(torch.full((1, 3), rank + 1.0)).sum().backward()
            optimizer.step()
    for model, start, optimizer in zip(models, before, optimizers, strict=True):
        optimizer.synchronize()
        moved = 3 * 0.1 * sum(range(1, size + 1)) / size
        assert torch.allclose(model.weight, start - moved)


def check_cross_barrier_errors(rank: int, size: int) -> None:
    if size == 1:
        return
    with pytest.raises(ValueError, match="LBFGS"):
        CrossBarrier(network(), torch.optim.LBFGS(network().parameters()))
    # What goes wrong in the background is raised by the next forward.
    model = torch.nn.Linear(2, 3 if rank == 0 else 4)
    named = [(f"mismatched.{name}", p) for name, p in model.named_parameters()]
    optimizer = CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=0.1), named)
    model(torch.ones(1, 2)).sum().backward()
    before = model.weight.detach().clone()
    optimizer.step()
    with pytest.raises(MismatchError, match="mismatched"):
        model(torch.ones(1, 2))
    assert torch.equal(model.weight, before)


def check_cross_barrier_past_a_module(rank: int, size: int) -> None:
    """Rank 0 uses a weight itself, while its update waits for the other ranks."""
    if size == 1:
        return
    model = network()
    optimizer = CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=0.1))
    if rank > 0:
        bps.barrier("rank 0 has failed")
    model(batches(size)[0]).mean().backward()
    optimizer.step()
    if rank == 0:
        with pytest.raises(AssertionError, match=r"0.weight.*synchronize\(\)"):
            model[0].weight.sum().backward()
        bps.barrier("rank 0 has failed")
    optimizer.synchronize()


def check_cross_barrier_of_matrices(rank: int, size: int) -> None:
    """Muon computes in bfloat16, and only matrices."""
    if not HAS_MUON:
        return
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 8, bias=False).double()
    alone = copy.deepcopy(model)
    expected = torch.optim.Muon(alone.parameters(), lr=0.1)
    optimizer = CrossBarrier(model, torch.optim.Muon(model.parameters(), lr=0.1))
    for batch in batches(size):
        expected.zero_grad()
        alone(batch).pow(2).mean().backward()
        expected.step()
        model(batch.chunk(size)[rank]).pow(2).mean().backward()
        optimizer.step()
    optimizer.synchronize()
    assert difference(alone, model) < 0.02


def check_cross_barrier_sparse(rank: int, size: int) -> None:
    """Ranks without a gradient learn how those of the others are stored."""
    torch.manual_seed(0)
    for make in (
        lambda p: torch.optim.SparseAdam(p, lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.5),
    ):
        model = torch.nn.Embedding(10, 3, sparse=True, dtype=torch.float64)
        alone = copy.deepcopy(model)
        expected = make(list(alone.parameters()))
        optimizer = CrossBarrier(model, make(list(model.parameters())))
        for step in range(5):
            expected.zero_grad()
            used = [r for r in range(size) if (r + step) % 3]
            for r in used:
                (alone(torch.tensor([r, step, r])).pow(2).sum() / size).backward()
            expected.step()
            if rank in used:
                model(torch.tensor([rank, step, rank])).pow(2).sum().backward()
            optimizer.step()
            optimizer.synchronize()
            assert difference(alone, model) < EXACT


def check_changed_gradients(rank: int, size: int) -> None:
    """Nobody steps when one rank has changed a gradient that is on its way."""
    if size == 1:
        return
    torch.manual_seed(0)
    model = network()
    before = copy.deepcopy(model)
    optimizer = CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=0.1))
    model(torch.ones(1, 6).double()).sum().backward()
    if rank == 0:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    with pytest.raises(bps.InvalidArgumentError, match=r"rank changed the gradient of '0"):
        optimizer.synchronize()
    assert difference(before, model) == 0.0
