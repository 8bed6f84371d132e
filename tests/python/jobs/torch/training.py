"""A worker: trains with DistributedOptimizer in many ways; each equals the same training alone."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch_features import has_fused

import byteps.torch as bps

Parameters = Iterable[torch.Tensor]
STEPS = 8


class Net(torch.nn.Module):
    """Two branches, of which some batches use only one."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = torch.nn.Linear(6, 8)
        self.left = torch.nn.Linear(8, 1)
        self.right = torch.nn.Linear(8, 1)

    def forward(self, batch: torch.Tensor, both: bool) -> torch.Tensor:
        hidden = torch.tanh(self.trunk(batch))
        return self.left(hidden) + self.right(hidden) if both else self.left(hidden)


@dataclass
class Case:
    name: str
    make: Callable[[Parameters], torch.optim.Optimizer]
    passes: int = 1
    both: Callable[[int, int], bool] = lambda rank, step: True
    options: dict[str, Any] = field(default_factory=dict)
    clip: float | None = None
    frozen: Callable[[int], bool] = lambda step: False


def sgd(parameters: Parameters) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)


def adam(parameters: Parameters) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.01)


CASES = (
    Case("SGD", sgd),
    Case("Adam", adam),
    Case("fused AdamW", lambda p: torch.optim.AdamW(p, lr=0.01, fused=has_fused())),
    Case("foreach RMSprop", lambda p: torch.optim.RMSprop(p, lr=0.01, foreach=True)),
    Case("accumulation", adam, passes=3, options={"backward_passes_per_step": 3}),
    Case("unused parameters", sgd, both=lambda rank, step: (rank + step) % 3 == 0),
    Case("never used", adam, both=lambda rank, step: False),
    Case("two groups", adam, options={"num_groups": 2}),
    Case("never used, weight decay", sgd, both=lambda rank, step: False),
    Case("never used, in a group", sgd, options={"groups": 1}, both=lambda rank, step: False),
    Case("one group, unused", sgd, options={"groups": 1}, both=lambda rank, step: step % 2 == 0),
    Case("predivided", sgd, options={"gradient_predivide_factor": 2.0}),
    Case("clipped", sgd, clip=0.01),
    Case("unfrozen later", adam, frozen=lambda step: step < STEPS // 2),
    Case("frozen later", sgd, frozen=lambda step: step > STEPS // 2),
    Case("one group, frozen in between", sgd, options={"groups": 1}, frozen=lambda step: step == 2),
)


def batches(size: int, passes: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    shape = (STEPS, passes, size, 4, 6)
    return list(torch.randn(shape, generator=generator, dtype=torch.float64))


def loss_of(model: Net, part: torch.Tensor, both: bool, passes: int) -> torch.Tensor:
    return model(part, both).pow(2).mean() / passes


def freeze(model: Net, frozen: bool) -> None:
    model.trunk.weight.requires_grad_(not frozen)


def train_alone(case: Case, model: Net, size: int) -> None:
    optimizer = case.make(model.parameters())
    for step, batch in enumerate(batches(size, case.passes)):
        freeze(model, case.frozen(step))
        optimizer.zero_grad()
        for ranks in batch:
            for rank, part in enumerate(ranks):
                (loss_of(model, part, case.both(rank, step), case.passes) / size).backward()
        if case.clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), case.clip)
        optimizer.step()


def train_together(case: Case, model: Net, rank: int, size: int) -> None:
    freeze(model, case.frozen(0))
    optimizer = bps.DistributedOptimizer(
        case.make(model.parameters()), model.named_parameters(), **case.options
    )
    for step, batch in enumerate(batches(size, case.passes)):
        freeze(model, case.frozen(step))
        optimizer.zero_grad()
        for ranks in batch:
            loss_of(model, ranks[rank], case.both(rank, step), case.passes).backward()
        if case.clip is None:
            optimizer.step()
            continue
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), case.clip)
        with optimizer.skip_synchronize():
            optimizer.step()


def main() -> None:
    torch.set_num_threads(1)
    bps.init()
    rank, size = bps.rank(), bps.size()
    for number, case in enumerate(CASES):
        torch.manual_seed(rank)
        model = Net().double()
        bps.broadcast_parameters(model.state_dict(), root_rank=0)
        alone = copy.deepcopy(model)
        train_alone(case, alone, size)
        train_together(case, model, rank, size)
        for expected, parameter in zip(alone.parameters(), model.parameters(), strict=True):
            difference = (expected - parameter).abs().max().item()
            assert difference <= 1e-12, (case.name, difference)
        weights = torch.cat([p.detach().flatten() for p in model.parameters()])
        rows = bps.allgather(weights.unsqueeze(0), name=f"weights {number}")
        assert all(torch.equal(row, rows[0]) for row in rows), case.name
    bps.shutdown()
    print("all right")


if __name__ == "__main__":
    main()
