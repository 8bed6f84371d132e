"""The operations of torch.compile; those that overlap with its default backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.library import opcheck

import byteps.torch as bps
from byteps.torch.compiled.push_pull import push_pull_start, push_pull_wait


def check_registration() -> None:
    opcheck(torch.ops.byteps.push_pull, (torch.ones(3, requires_grad=True), "checked"))
    opcheck(torch.ops.byteps.push_pull, (torch.ones(3, 2)[:, 1], "checked sum", False, 5))
    allreduce = torch.ops.byteps.allreduce
    opcheck(allreduce, (torch.ones(3, requires_grad=True), "checked scaled", "SUM", 2.0, 0.5))
    opcheck(torch.ops.byteps.broadcast, (torch.ones(3, requires_grad=True), 0, "checked"))
    # Handles differ from call to call, and nobody waits here: results cannot be compared.
    for test in ("test_schema", "test_autograd_registration"):
        opcheck(torch.ops.byteps.push_pull_start, (torch.ones(3), test), test_utils=test)


def check_graph() -> None:
    """One graph, forward and backward, with a pair around other work."""

    @torch.compile(fullgraph=True)
    def step(weight: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        started = batch * 2
        handle = push_pull_start(started, "batch", priority=3)
        summed = bps.push_pull(weight * 3, name="weight")
        other = bps.allreduce(torch.tanh(summed), name="other", postscale_factor=2.0)
        return other.sum() + push_pull_wait(started, handle).sum()

    weight = torch.full((4,), 0.1, requires_grad=True)
    for _ in range(2):
        weight.grad = None
        loss = step(weight, torch.ones(4))
        loss.backward()
        assert torch.allclose(loss, 8 * torch.tanh(torch.tensor(0.3)) + 8)
        expected = 6 * (1 - torch.tanh(torch.tensor(0.3)) ** 2)
        assert torch.allclose(weight.grad, expected.expand(4))


def check_graph_of_a_product() -> None:
    @torch.compile(fullgraph=True, backend="aot_eager")
    def product(tensor: torch.Tensor) -> torch.Tensor:
        return bps.allreduce(tensor * 2, name="product", op=bps.Product).pow(2).sum()

    tensor = torch.tensor([0.0, 3.0], requires_grad=True)
    product(tensor).backward()
    size = bps.size()
    assert tensor.grad.tolist() == [0.0, 2 * size * 6.0 ** (2 * size) / 3]


def everything(tensor: torch.Tensor, splits: torch.Tensor) -> list[torch.Tensor]:
    """Call all collectives that have a graph's operation, nearly all without a name."""
    last = bps.size() - 1
    swapped, counts = bps.alltoall(tensor, splits)
    return [
        bps.allreduce(tensor * 2),
        bps.allreduce(tensor, op=bps.Sum, name="named", prescale_factor=2.0),
        bps.allreduce(tensor, op=bps.Max, compression=bps.Compression.fp16),
        bps.broadcast(tensor, last),
        bps.allgather(tensor[: bps.rank() + 1]),
        bps.allgather(tensor.sum(), name="gathered"),
        bps.reducescatter(tensor),
        bps.reducescatter(tensor, op=bps.Min),
        bps.alltoall(tensor[: last + 1]),
        bps.alltoall(tensor, [tensor.shape[0], *[0] * last], name="to one")[0],
        swapped,
        counts,
    ]


def everything_among(
    ranks: bps.ProcessSet, tensor: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    swapped, counts = bps.alltoall(tensor[: ranks.size()], [1] * ranks.size(), process_set=ranks)
    return (
        bps.allreduce(tensor, process_set=ranks),
        bps.broadcast(tensor, ranks.ranks[-1], process_set=ranks),
        bps.allgather(tensor, process_set=ranks),
        bps.reducescatter(tensor, process_set=ranks, op=bps.Sum),
        swapped,
        counts,
    )


def results_of(function: Callable[..., Any], *more: Any) -> tuple[list[torch.Tensor], torch.Tensor]:
    tensor = torch.arange(10.0).reshape(5, 2).add(1.0).mul(bps.rank() + 1.0).requires_grad_()
    results = function(*more, tensor)
    sum(result.double().mul(i + 1).pow(2).sum() for i, result in enumerate(results)).backward()
    return list(results), tensor.grad


def check_collectives() -> None:
    """As eager, also beside eager ranks: names without a name are the run's, not the graph's."""
    size = bps.size()
    splits = torch.tensor([6 - size, *[1] * (size - 1)])

    def all_of_them(tensor: torch.Tensor) -> list[torch.Tensor]:
        return everything(tensor, splits)

    compiled = torch.compile(all_of_them, fullgraph=True, backend="aot_eager")
    expected, gradient = results_of(all_of_them)
    for way in (compiled, compiled, compiled if bps.rank() == 0 else all_of_them):
        results, found = results_of(way)
        assert all(map(torch.equal, results, expected)), (results, expected)
        assert torch.equal(found, gradient), (found, gradient)


def check_unused() -> None:
    """The others wait for a rank that has no use for the result."""

    def on_the_first_rank(tensor: torch.Tensor) -> torch.Tensor:
        total = bps.allreduce(tensor, op=bps.Sum, name="unused")
        return total if bps.rank() == 0 else tensor * 2

    compiled = torch.compile(on_the_first_rank, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(3)), on_the_first_rank(torch.ones(3)))


def check_process_sets() -> None:
    ranks = bps.add_process_set(range(1, bps.size()))
    if ranks.included():
        compiled = torch.compile(everything_among, fullgraph=True, backend="aot_eager")
        expected, gradient = results_of(everything_among, ranks)
        for _ in range(2):
            results, found = results_of(compiled, ranks)
            assert all(map(torch.equal, results, expected)), (results, expected)
            assert torch.equal(found, gradient), (found, gradient)
    bps.remove_process_set(ranks)


def check_errors() -> None:
    """What the run finds out is as clear as without a compiler."""
    function = torch.compile(lambda t: bps.broadcast(t, 7), fullgraph=True, backend="eager")
    with pytest.raises(ValueError, match="root_rank is 7"):
        function(torch.ones(1))
    nobody = bps.ProcessSet([0])
    function = torch.compile(
        lambda t: bps.allreduce(t, process_set=nobody), fullgraph=True, backend="eager"
    )
    with pytest.raises(ValueError, match="not registered"):
        function(torch.ones(1))


def check_pair_in_eager_mode() -> None:
    tensor = torch.ones(3)
    handle = push_pull_start(tensor, "eager")
    assert push_pull_wait(tensor, handle) is tensor
    with pytest.raises(ValueError, match="waited for already"):
        push_pull_wait(tensor, handle)


def main() -> None:
    torch.set_num_threads(1)
    bps.init()
    check_registration()
    check_graph()
    check_graph_of_a_product()
    if bps.size() > 1:
        check_collectives()
        check_unused()
        check_process_sets()
    check_errors()
    check_pair_in_eager_mode()
    print(f"all right {bps.rank()}/{bps.size()}")


if __name__ == "__main__":
    main()
