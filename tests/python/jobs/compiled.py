"""A process without a launcher: the operations of torch.compile with its default backend."""

from __future__ import annotations

import pytest
import torch
from torch.library import opcheck

import byteps.torch as bps
from byteps.torch.compiled import push_pull_start, push_pull_wait


def check_registration() -> None:
    opcheck(torch.ops.byteps.push_pull, (torch.ones(3, requires_grad=True), "checked"))
    opcheck(torch.ops.byteps.push_pull, (torch.ones(3, 2)[:, 1], "checked sum", False, 5))
    allreduce = torch.ops.byteps.allreduce
    opcheck(allreduce, (torch.ones(3, requires_grad=True), "checked scaled", "SUM", 2.0, 0.5))
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
    check_pair_in_eager_mode()
    print(f"all right {bps.rank()}/{bps.size()}")


if __name__ == "__main__":
    main()
