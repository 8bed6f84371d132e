"""A worker: trains with DistributedOptimizer and compares with the same training alone."""

from __future__ import annotations

import copy

import torch

import byteps.torch as bps


def batches(size: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(4 * size, 6, generator=generator, dtype=torch.float64) for _ in range(10)]


def main() -> None:
    torch.set_num_threads(1)
    bps.init()
    torch.manual_seed(bps.rank())
    layers = [torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)]
    model = torch.nn.Sequential(*layers).double()
    bps.broadcast_parameters(model.state_dict(), root_rank=0)
    alone = copy.deepcopy(model)
    reference = torch.optim.Adam(alone.parameters(), lr=0.01)
    optimizer = bps.DistributedOptimizer(
        torch.optim.Adam(model.parameters(), lr=0.01), model.named_parameters()
    )
    for batch in batches(bps.size()):
        reference.zero_grad()
        alone(batch).pow(2).mean().backward()
        reference.step()
        optimizer.zero_grad()
        model(batch.chunk(bps.size())[bps.rank()]).pow(2).mean().backward()
        optimizer.step()
    for expected, parameter in zip(alone.parameters(), model.parameters(), strict=True):
        assert torch.allclose(expected, parameter, rtol=0, atol=1e-12)
        rows = bps.allgather(parameter.detach().flatten().unsqueeze(0))
        assert all(torch.equal(row, rows[0]) for row in rows)
    bps.shutdown()
    print("all right")


if __name__ == "__main__":
    main()
