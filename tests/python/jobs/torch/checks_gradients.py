"""Operations as autograd sees them."""

from __future__ import annotations

import torch
from checks_scatter import part

import byteps.torch as bps


def leaf(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, dtype=torch.float64, requires_grad=True)


def check_allreduce(rank: int, size: int) -> None:
    total = sum(range(1, size + 1))
    for op, expected in ((bps.Sum, total), (bps.Average, total / size)):
        tensor = leaf(3)
        result = bps.allreduce(tensor, name=f"gradient {op.name}", op=op, prescale_factor=2.0)
        (result * (rank + 1)).sum().backward()
        assert torch.allclose(tensor.grad, torch.full((3,), 2.0 * expected, dtype=torch.float64))
    tensor = leaf(2)
    bps.allreduce(tensor).t().expand(3, 2).sum().backward()  # a gradient without memory of its own
    assert tensor.grad.tolist() == [3.0, 3.0]


def combined_alone(op: bps.ReduceOp, rows: torch.Tensor) -> torch.Tensor:
    if op is bps.Product:
        return rows.prod(0)
    return rows.amax(0) if op is bps.Max else rows.amin(0)


def check_nonlinear(rank: int, size: int) -> None:
    """Minima, maxima and products, with ties and zeros, against torch's own gradients."""
    generator = torch.Generator().manual_seed(5)
    ranks = torch.randint(-2, 3, (size, 40), generator=generator).double().requires_grad_()
    weights = torch.randn(size, 40, generator=generator, dtype=torch.float64)
    for op in (bps.Min, bps.Max, bps.Product):
        for before, after in ((1.0, 1.0), (0.5, -3.0)):
            options = {"op": op, "prescale_factor": before, "postscale_factor": after}
            ranks.grad = None
            (combined_alone(op, ranks * before) * after * weights).sum().backward()
            own = ranks[rank].detach().clone().requires_grad_()
            result = bps.allreduce(own, name=f"nonlinear {options}", **options)
            (result * weights[rank]).sum().backward()
            assert torch.allclose(own.grad, ranks.grad[rank], rtol=0, atol=1e-12), options
            parts = [p.clone().requires_grad_() for p in own.detach().split([30, 10])]
            whole = torch.ones(2, dtype=torch.int64)
            first, _, second = bps.grouped_allreduce(
                [parts[0], whole, parts[1]], name=f"nonlinear group {options}", **options
            )
            (torch.cat([first, second]) * weights[rank]).sum().backward()
            joined = torch.cat([part.grad for part in parts])
            assert torch.allclose(joined, own.grad, rtol=0, atol=1e-12), options


def check_scattered_nonlinear(rank: int, size: int) -> None:
    """The same of reducescatter, of which a rank has its rows."""
    generator = torch.Generator().manual_seed(6)
    shape = (size, 2 * size + 1, 3)
    ranks = torch.randint(-2, 3, shape, generator=generator).double().requires_grad_()
    weights = torch.randn(shape[1:], generator=generator, dtype=torch.float64)
    mine = part(shape[1], rank, size)
    for op in (bps.Min, bps.Max, bps.Product):
        options = {"op": op, "prescale_factor": 0.5, "postscale_factor": -3.0}
        ranks.grad = None
        (combined_alone(op, ranks * 0.5) * -3.0 * weights).sum().backward()
        own = ranks[rank].detach().clone().requires_grad_()
        (bps.reducescatter(own, name=f"scattered {op}", **options) * weights[mine]).sum().backward()
        assert torch.allclose(own.grad, ranks.grad[rank], rtol=0, atol=1e-12), options
        own.grad = None
        rows = bps.grouped_reducescatter([own, own], name=f"scattered group {op}", **options)
        (rows[1] * weights[mine]).sum().backward()
        assert torch.allclose(own.grad, ranks.grad[rank], rtol=0, atol=1e-12), options


def check_grouped_allreduce(rank: int, size: int) -> None:
    tensors = [leaf(2), leaf(3, 1), leaf(1)]
    results = bps.grouped_allreduce(tensors, name="gradient group", op=bps.Sum)
    (results[0].sum() * (rank + 1) + results[1].sum()).backward()
    assert tensors[0].grad.tolist() == [sum(range(1, size + 1))] * 2
    assert tensors[1].grad.tolist() == [[size]] * 3
    assert tensors[2].grad.tolist() == [0.0]


def check_allgather(rank: int, size: int) -> None:
    tensor = leaf(rank + 1, 2)
    rows = bps.allgather(tensor, name="gradient rows")
    weights = torch.arange(1.0, len(rows) + 1, dtype=torch.float64)[:, None]
    (rows * weights * (rank + 1)).sum().backward()
    begin = sum(range(1, rank + 1))
    mean = sum(range(1, size + 1)) / size
    expected = (torch.arange(rank + 1) + begin + 1.0)[:, None].expand(-1, 2) * mean
    assert torch.allclose(tensor.grad, expected.double())
    scalar = torch.tensor(1.0, requires_grad=True)
    bps.allgather(scalar, name="gradient scalar").sum().backward()
    assert scalar.grad.item() == 1.0


def check_grouped_allgather(rank: int, size: int) -> None:
    tensors = [leaf(rank, 2), leaf(2)]
    results = bps.grouped_allgather(tensors, name="gradient gathered group")
    (results[0].sum() + (results[1] * torch.arange(2.0 * size)).sum()).backward()
    assert tensors[0].grad.tolist() == [[1.0, 1.0]] * rank
    assert tensors[1].grad.tolist() == [2.0 * rank, 2.0 * rank + 1]


def check_broadcast(rank: int, size: int) -> None:
    root = size - 1
    tensor = leaf(2)
    (bps.broadcast(tensor, root, name="gradient copy") * (rank + 1)).sum().backward()
    expected = sum(range(1, size + 1)) / size if rank == root else 0.0
    assert tensor.grad.tolist() == [expected] * 2


def check_compressed(rank: int, size: int) -> None:
    tensor = torch.ones(2, requires_grad=True)
    result = bps.allreduce(tensor, name="small", op=bps.Sum, compression=bps.Compression.bf16)
    result.sum().backward()
    assert tensor.grad.dtype == torch.float32
    assert tensor.grad.tolist() == [size] * 2
