"""Sparse tensors."""

from __future__ import annotations

import torch

import byteps.torch as bps


def check_sum_by_row(rank: int, size: int) -> None:
    for op in (bps.Sum, bps.Average):
        # Row 0 of every rank, twice; row rank + 1 of this one.
        indices = torch.tensor([[0, rank + 1, 0]])
        values = torch.tensor([[1.0, 2.0], [3.0, 4.0], [10.0, 20.0]], dtype=torch.float64)
        tensor = torch.sparse_coo_tensor(indices, values, (size + 2, 2))
        handle = bps.sparse_allreduce_async(tensor, name=f"sparse {op.name}", op=op)
        while not bps.poll(handle):
            pass
        result = handle() if rank % 2 else bps.synchronize(handle)
        expected = torch.zeros(size + 2, 2, dtype=torch.float64)
        expected[0] = torch.tensor([11.0, 22.0]) * size
        expected[1 : size + 1] = torch.tensor([3.0, 4.0])
        if op is bps.Average:
            expected /= size
        assert result.is_coalesced()
        assert result._nnz() == size + 1
        assert torch.allclose(result.to_dense(), expected)


def check_shapes(rank: int, size: int) -> None:
    for shape, sparse_dimensions in (((3, 4), 2), ((3, 4, 2), 2), ((5,), 1)):
        dense = torch.arange(float(torch.Size(shape).numel())).reshape(shape) + rank
        tensor = dense.to_sparse(sparse_dimensions)
        result = bps.sparse_allreduce_async(tensor, name=f"shape {shape}", op=bps.Sum)()
        expected = sum(
            torch.arange(float(torch.Size(shape).numel())).reshape(shape) + r for r in range(size)
        )
        assert torch.equal(result.to_dense(), expected)
    nothing = torch.sparse_coo_tensor(size=(3, 2))
    assert bps.sparse_allreduce_async(nothing, name="nothing")()._nnz() == 0


def check_average_of_integers(rank: int, size: int) -> None:
    tensor = torch.sparse_coo_tensor([[0]], [[-rank]], (2, 1), dtype=torch.int64)
    result = bps.sparse_allreduce_async(tensor, name="whole rows")().to_dense()
    assert result.dtype == torch.int64
    assert result.tolist() == [[-sum(range(size)) // size], [0]]


def check_same_bits(rank: int, size: int) -> None:
    generator = torch.Generator().manual_seed(rank)
    indices = torch.randint(0, 20, (1, 200), generator=generator)
    values = torch.randn(200, 3, generator=generator)
    tensor = torch.sparse_coo_tensor(indices, values, (20, 3))
    results = [
        bps.sparse_allreduce_async(tensor, name="sparse bits", op=bps.Sum)().to_dense()
        for _ in range(3)
    ]
    everywhere = bps.allgather(torch.stack(results).reshape(3, -1), name="all bits")
    assert all(torch.equal(row, everywhere[0]) for row in everywhere)


def check_training(rank: int, size: int) -> None:
    """An embedding with sparse gradients learns what one with dense gradients learns."""
    weights = {}
    for sparse, as_dense in ((False, False), (True, False), (True, True)):
        torch.manual_seed(0)
        table = torch.nn.Embedding(10, 3, sparse=sparse, dtype=torch.float64)
        optimizer = bps.DistributedOptimizer(
            torch.optim.SGD(table.parameters(), lr=0.5),
            table.named_parameters(),
            sparse_as_dense=as_dense,
        )
        for step in range(6):
            optimizer.zero_grad()
            if (rank + step) % 3:  # a rank without a gradient does not know that others' are sparse
                table(torch.tensor([rank, step, rank])).pow(2).sum().backward()
            optimizer.step()
        weights[sparse, as_dense] = table.weight.detach()
    for weight in weights.values():
        assert torch.allclose(weight, weights[False, False], rtol=0, atol=1e-14)
