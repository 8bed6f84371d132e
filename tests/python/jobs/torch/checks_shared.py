"""Tensors in memory that the ranks share, in every operation, with others and without."""

from __future__ import annotations

import gc
import os
from functools import partial
from pathlib import Path

import numpy as np
import torch
from checks_mismatch import expect

import byteps.numpy
import byteps.torch as bps
from byteps.common.session import default

TYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16,
    torch.int32, torch.int64, torch.uint8, torch.bool,
)  # fmt: skip
LARGE = 1_000_003  # of several pieces, the last one shorter


def shared(values: torch.Tensor) -> torch.Tensor:
    """Return a shared tensor with these values."""
    return bps.empty_shared(values.shape, dtype=values.dtype).copy_(values)


def shared_bytes() -> int:
    """Return how much memory of this process others may have, too."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["RssShmem"].split()[0]) << 10


def values_of(rank: int, count: int = LARGE) -> torch.Tensor:
    return torch.arange(count, dtype=torch.float32) % 1021 + rank


def sum_of(size: int, count: int = LARGE) -> torch.Tensor:
    return size * (torch.arange(count, dtype=torch.float32) % 1021) + size * (size - 1) / 2


def check_shapes(rank: int, size: int) -> None:
    assert bps.empty_shared(2, 3).shape == (2, 3)
    assert bps.empty_shared((2, 3), dtype=torch.int8).dtype == torch.int8
    assert bps.empty_shared([5]).dtype == torch.get_default_dtype()
    assert bps.empty_shared().shape == ()
    assert bps.empty_shared(3, 0).shape == (3, 0)
    assert bps.empty_shared(2, requires_grad=True).requires_grad
    assert bps.empty_shared(100).data_ptr() % 64 == 0
    expect(bps.InvalidArgumentError, partial(bps.empty_shared, -1), "shape")
    complex_one = partial(bps.empty_shared, 1, dtype=torch.complex64)
    expect(bps.InvalidArgumentError, complex_one, "not supported")


def check_types(rank: int, size: int) -> None:
    for dtype in TYPES:
        # Twice: the first of all sums still copies, because the ranks have not seen each other's.
        for turn in range(2):
            mine = shared(torch.full((3, 5), rank + 1).to(dtype))
            operation = bps.Max if dtype is torch.bool else bps.Sum
            total = bps.allreduce(mine, name=f"{dtype} {turn}", op=operation)
            expected = 1 if dtype is torch.bool else size * (size + 1) // 2
            assert (total == expected).all(), (dtype, total)
            assert (mine == torch.full((), rank + 1).to(dtype)).all()
            copied = bps.broadcast(mine, size - 1, name=f"b {dtype}")
            assert (copied == torch.full((), size).to(dtype)).all()


def check_in_place(rank: int, size: int) -> None:
    tensor = shared(values_of(rank))
    for _ in range(5):
        tensor.copy_(values_of(rank))
        assert bps.push_pull_inplace(tensor, average=False, name="in place") is tensor
        assert torch.equal(tensor, sum_of(size))
    part = tensor[17 : 17 + 300_000]
    part.fill_(rank)
    bps.push_pull_inplace(part, name="a part")
    assert (part == (size - 1) / 2).all()
    assert torch.equal(tensor[:17], sum_of(size)[:17])


def check_some_ranks_only(rank: int, size: int) -> None:
    for who in range(size + 1):
        values = values_of(rank)
        mine = shared(values) if rank == who or (who == size and rank > 0) else values
        for _ in range(2):
            total = bps.push_pull(mine, average=False, name="mixed")
            assert torch.equal(total, sum_of(size))
            assert torch.equal(mine, values_of(rank))


def check_asynchronous_calls(rank: int, size: int) -> None:
    tensors = [shared(values_of(rank, 1000 * (i + 1))) for i in range(20)]
    handles = [
        bps.push_pull_async_inplace(tensor, average=False, name=f"async {i}", priority=i)
        for i, tensor in enumerate(tensors)
    ]
    for i, handle in enumerate(handles):
        assert torch.equal(bps.synchronize(handle), sum_of(size, 1000 * (i + 1)))


def check_other_operations(rank: int, size: int) -> None:
    mine = shared(torch.full((size, 2), float(rank)))
    means = bps.reducescatter(mine, name="rows", op=bps.Average)
    assert means.tolist() == [[(size - 1) / 2] * 2]
    rows = bps.allgather(mine, name="all rows")
    assert rows[:, 0].tolist() == [float(r) for r in range(size) for _ in range(size)]
    assert bps.alltoall(mine, name="exchanged")[:, 1].tolist() == [float(r) for r in range(size)]
    pair = bps.grouped_allreduce([mine, shared(torch.ones(3))], name="pair", op=bps.Sum)
    assert pair[1].tolist() == [size] * 3
    least = bps.allreduce(mine, name="least", op=bps.Min)
    assert (least == 0).all()
    bps.broadcast_(mine, size - 1, name="to all")
    assert (mine == size - 1).all()


def check_process_sets(rank: int, size: int) -> None:
    if size < 3:
        return
    some = bps.add_process_set([0, size - 1])
    if some.included():
        tensor = shared(values_of(rank))
        for _ in range(3):
            total = bps.allreduce(tensor, name="two", op=bps.Sum, process_set=some)
            assert torch.equal(total, values_of(0) + values_of(size - 1))
    bps.remove_process_set(some)


def check_a_tensor_that_dies_meanwhile(rank: int, size: int) -> None:
    """Its memory stays until the operation has ended; then it is given back."""
    sum_a_dying_tensor(rank, size)  # the ranks have touched the window
    before = shared_bytes()
    for _ in range(5):
        sum_a_dying_tensor(rank, size)
    assert shared_bytes() < before + LARGE * 4, (before, shared_bytes())
    bps.barrier(name="all have looked")


def sum_a_dying_tensor(rank: int, size: int) -> None:
    tensor = shared(values_of(rank))
    handle = bps.push_pull_async(tensor, average=False, name="dying")
    del tensor
    gc.collect()
    assert torch.equal(bps.synchronize(handle), sum_of(size))
    gc.collect()
    bps.barrier(name="all have let go")


def check_memory_is_given_back(rank: int, size: int) -> None:
    before = shared_bytes()
    tensor = bps.empty_shared(8 << 20).fill_(1.0)
    if default.current().shared_memory(1).is_shared:
        assert shared_bytes() >= before + (32 << 20), (before, shared_bytes())
    view = tensor[5:]
    del tensor
    assert (view == 1.0).all()
    del view
    gc.collect()
    assert shared_bytes() < before + (8 << 20), (before, shared_bytes())


def check_what_a_fork_has(rank: int, size: int) -> None:
    """A child may drop its tensors: the parent's stay."""
    tensor = shared(values_of(rank))
    child = os.fork()
    if child == 0:
        del tensor
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    bps.push_pull_inplace(tensor, average=False, name="behind a fork")
    assert torch.equal(tensor, sum_of(size))


def check_arrays(rank: int, size: int) -> None:
    array = byteps.numpy.empty_shared((3, 4), np.int16)
    array[...] = rank
    byteps.numpy.push_pull_inplace(array, average=False, name="array")
    assert array.shape == (3, 4)
    assert (array == size * (size - 1) // 2).all()
    assert byteps.numpy.empty_shared(0).shape == (0,)
    expect(bps.InvalidArgumentError, partial(byteps.numpy.empty_shared, (2, -1)), "shape")
    expect(bps.InvalidArgumentError, partial(byteps.numpy.empty_shared, 2, object), "exchanged")


def check_gradients(rank: int, size: int) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(30, 7), torch.nn.Linear(7, 3))
    alone = torch.nn.Sequential(torch.nn.Linear(30, 7), torch.nn.Linear(7, 3))
    alone.load_state_dict(model.state_dict())
    bps.share_gradients(model.parameters())
    places = [parameter.grad.data_ptr() for parameter in model.parameters()]
    assert all(place % 64 == 0 for place in places)
    assert all((parameter.grad == 0).all() for parameter in model.parameters())
    optimizer = bps.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        [(f"shared {name}", parameter) for name, parameter in model.named_parameters()],
    )
    other = torch.optim.SGD(alone.parameters(), lr=0.1)
    everything = torch.randn(size * 4, 30)
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        model(everything[4 * rank : 4 * rank + 4]).square().mean().backward()
        optimizer.step()
        other.zero_grad()
        alone(everything).square().mean().backward()
        other.step()
    for mine, theirs in zip(model.parameters(), alone.parameters(), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-5)
    assert [parameter.grad.data_ptr() for parameter in model.parameters()] == places
    given = torch.nn.Parameter(torch.ones(2))
    given.grad = torch.full((2,), 3.0)
    bps.share_gradients([given, given, torch.nn.Parameter(torch.ones(1), requires_grad=False)])
    assert given.grad.tolist() == [3.0, 3.0]


KEPT: list[torch.Tensor] = []


def check_tensors_of_an_earlier_session(rank: int, size: int) -> None:
    """They are like any others, and their memory is theirs."""
    for tensor in KEPT:
        tensor.copy_(values_of(rank))
        total = bps.push_pull(tensor, average=False, name="kept")
        assert torch.equal(total, sum_of(size))
    KEPT.clear()
    KEPT.append(shared(values_of(rank)))
