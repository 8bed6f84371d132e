"""The allreduce family, single and grouped."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

import byteps.torch as bps

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


def check_ops(rank: int, size: int) -> None:
    for dtype in (*FLOATS, *INTEGERS):
        mine = torch.tensor([rank + 1, 2, size - rank]).to(dtype)
        total = size * (size + 1) // 2
        expected = {
            bps.Sum: [total, 2 * size, total],
            bps.Min: [1, 2, 1],
            bps.Max: [size, 2, size],
            bps.Product: [math.factorial(size), 2**size, math.factorial(size)],
        }
        for op, values in expected.items():
            result = bps.allreduce(mine, name=f"{op.name} {dtype}", op=op)
            assert torch.equal(result, torch.tensor(values).to(dtype)), (op, dtype, result)


def check_averages(rank: int, size: int) -> None:
    for dtype in FLOATS:
        mean = bps.allreduce(torch.tensor([4.0 * rank]).to(dtype), name=f"mean {dtype}")
        assert mean.item() == 2.0 * (size - 1)
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        mine = torch.tensor([-1 if rank == 0 else 0, 100, -100 - rank, 7 * rank]).to(dtype)
        mean = [-1 / size, 100, -100 - (size - 1) / 2, 7 * (size - 1) / 2]
        for result in (  # Horovod's names cut toward zero
            bps.allreduce(mine, name=f"mean {dtype}"),
            bps.allreduce_(mine.clone(), name=f"mean in place {dtype}"),
            bps.grouped_allreduce([mine, torch.ones(3)], name=f"group {dtype}")[0],
        ):
            assert result.dtype == dtype
            assert result.tolist() == [math.trunc(value) for value in mean]
        result = bps.push_pull(mine, name=f"push_pull {dtype}")  # the original's rounds down
        assert result.tolist() == [math.floor(value) for value in mean]


def check_bool(rank: int, size: int) -> None:
    mine = torch.tensor([rank == 0, False, True])
    for op, expected in {
        bps.Sum: [True, False, True],
        bps.Max: [True, False, True],
        bps.Min: [size == 1, False, True],
        bps.Product: [size == 1, False, True],
    }.items():
        assert bps.allreduce(mine, name=f"bool {op.name}", op=op).tolist() == expected


def check_scale(rank: int, size: int) -> None:
    for dtype in FLOATS:
        ones = torch.ones(3, dtype=dtype)
        result = bps.allreduce(
            ones, name=f"scaled {dtype}", op=bps.Sum, prescale_factor=0.5, postscale_factor=4
        )
        assert result.tolist() == [2.0 * size] * 3
        assert ones.tolist() == [1.0] * 3
        bps.allreduce_(ones, name=f"in place {dtype}", prescale_factor=0.5, postscale_factor=4)
        assert ones.tolist() == [2.0] * 3
    whole = bps.allreduce(
        torch.tensor([3, -3]), name="cut", op=bps.Sum, prescale_factor=0.5, postscale_factor=1.0
    )
    assert whole.tolist() == [size, -size]


def check_forms(rank: int, size: int) -> None:
    tensor = torch.tensor([float(rank)])
    expected = [sum(range(size))]
    assert bps.synchronize(bps.allreduce_async(tensor, op=bps.Sum)).tolist() == expected
    assert tensor.tolist() == [rank]
    again = tensor.clone()
    assert bps.synchronize(bps.allreduce_async_(again, op=bps.Sum)) is again
    assert again.tolist() == expected
    again = tensor.clone()
    assert bps.allreduce_(again, op=bps.Sum) is again
    assert again.tolist() == expected
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert bps.allreduce(tensor, False, "old way").tolist() == expected
    assert [item.category for item in caught] == [DeprecationWarning]


def check_memory(rank: int, size: int) -> None:
    """Transposed, strided, negated, empty, without dimensions."""
    base = torch.arange(12.0).reshape(3, 4)
    for name, view in {
        "transposed": base.t(),
        "strided": base[:, ::2],
        "channels last": torch.arange(24.0)
        .reshape(1, 2, 3, 4)
        .to(memory_format=torch.channels_last),
        "expanded": torch.ones(1).expand(5),
        "negated": torch.complex(torch.zeros(3), torch.arange(3.0)).conj().imag,
    }.items():
        result = bps.allreduce(view, name=name, op=bps.Sum)
        assert torch.equal(result, view * size), name
    inside = torch.arange(12.0).reshape(3, 4)
    bps.allreduce_(inside.t()[1], name="column", op=bps.Sum)
    expected = torch.arange(12.0).reshape(3, 4)
    expected[:, 1] *= size
    assert torch.equal(inside, expected)
    for shape in ((0,), (0, 3), (2, 0)):
        assert bps.allreduce(torch.empty(shape), name=f"empty {shape}").shape == shape
    assert bps.allreduce(torch.tensor(2.0), name="scalar", op=bps.Sum).item() == 2.0 * size


def check_compression(rank: int, size: int) -> None:
    for compressor in (bps.Compression.none, bps.Compression.fp16, bps.Compression.bf16):
        tensor = torch.full((3,), rank + 0.5)
        result = bps.allreduce(tensor, name=compressor.__name__, compression=compressor, op=bps.Sum)
        assert result.dtype == torch.float32
        assert result.tolist() == [size * size / 2] * 3


def check_grouped(rank: int, size: int) -> None:
    total = sum(range(1, size + 1))

    def make() -> list[torch.Tensor]:
        return [
            torch.full((2, 3), float(rank + 1)),
            torch.tensor(float(rank + 1)),
            torch.empty(0, 4),
            torch.full((3, 2), float(rank + 1)).t(),
        ]

    expected = [torch.full((2, 3), total), torch.tensor(total), torch.empty(0, 4),
                torch.full((2, 3), total)]  # fmt: skip
    tensors = make()
    for results in (
        bps.grouped_allreduce(tensors, name="group", op=bps.Sum),
        bps.synchronize(bps.grouped_allreduce_async(tensors, op=bps.Sum)),
        bps.grouped_allreduce_(make(), op=bps.Sum),
        bps.synchronize(bps.grouped_allreduce_async_(make(), op=bps.Sum)),
        bps.grouped_allreduce(tensors, op=bps.Sum, prescale_factor=2, postscale_factor=0.5),
        bps.grouped_allreduce(tensors, op=bps.Sum, compression=bps.Compression.bf16),
    ):
        for result, other in zip(results, expected, strict=True):
            assert torch.equal(result, other.float()), results
    assert tensors[1].item() == rank + 1
    assert bps.grouped_allreduce([]) == []


def check_grouped_types(rank: int, size: int) -> None:
    tensors = [torch.ones(3), torch.ones(2, dtype=torch.int64), torch.ones(1), torch.tensor([True])]
    handles = [bps.grouped_allreduce_async(tensors, op=bps.Sum) for _ in range(3)]
    for handle in handles[:: 1 if rank % 2 else -1]:
        results = bps.synchronize(handle)
        assert [r.dtype for r in results] == [t.dtype for t in tensors]
        assert [r.tolist() for r in results] == [[size] * 3, [size] * 2, [size], [True]]
        assert handle.members == list(range(size))


def check_a_group_that_is_refused_leaves_its_name_free(rank: int, size: int) -> None:
    for _ in range(20):
        with pytest.raises(bps.InvalidArgumentError, match="it may have 4096"):
            bps.grouped_allreduce([torch.ones(1), torch.tensor([True])], name="n" * 5000)
