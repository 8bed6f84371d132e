"""A worker: wrappers of optimizers and models, where training does not look."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
import warnings

import checks
import checks_cross_barrier
import checks_stepping
import pytest
import torch
import torch.distributed as dist
from checks_cross_barrier import EXACT, batches, difference, network

import byteps.torch as bps
from byteps.common.errors import MismatchError
from byteps.torch.ddp_hook import DDPHookState, ddp_comm_hook
from byteps.torch.parallel import DistributedDataParallel
from byteps.torch.sync_batch_norm import SyncBatchNorm

Adam = torch.optim.Adam


def same_on_all_ranks(tensor: torch.Tensor) -> bool:
    rows = bps.allgather(tensor.detach().flatten()[None])
    return all(torch.equal(row, rows[0]) for row in rows)


def check_parallel_starts_equal(rank: int, size: int) -> None:
    torch.manual_seed(rank)
    model = DistributedDataParallel(network())
    assert same_on_all_ranks(model.module[0].weight)
    for wrong in ([], [0, 1]):
        with pytest.raises(AssertionError, match="device_ids"):
            DistributedDataParallel(network(), device_ids=wrong)


def check_parallel_buffers(rank: int, size: int) -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(2))
            self.layer = torch.nn.Linear(2, 1)

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            result = self.layer(batch) + self.seen.sum()
            self.seen += rank + 1
            return result

    model = DistributedDataParallel(Counting())
    for _ in range(3):
        model(torch.ones(1, 2)).sum().backward()
    # Each forward began with rank 0's buffers: two steps of rank 0, one of its own.
    assert model.module.seen.tolist() == [2 + rank + 1] * 2
    kept = DistributedDataParallel(Counting(), broadcast_buffers=False)
    for _ in range(3):
        kept(torch.ones(1, 2)).sum().backward()
    assert kept.module.seen.tolist() == [3 * (rank + 1)] * 2


def check_parallel_copied(rank: int, size: int) -> None:
    """Copies average what is theirs, whichever way they were made."""
    model = DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    if rank == 0:
        copy.deepcopy(model).module(torch.ones(1, 2))  # only to look at it
    for copied in (*copies, model):
        copied(torch.full((1, 2), float(rank))).sum().backward()
        assert copied.module.weight.grad.tolist() == [[(size - 1) / 2] * 2]


def check_parallel_without_a_gradient(rank: int, size: int) -> None:
    """Ranks whose loss depends on nothing take part by synchronize()."""
    model = DistributedDataParallel(network())
    output = model(torch.ones(1, 6, dtype=torch.float64)).sum()
    if rank == 0:
        output.backward()
    model.synchronize()
    gradient = model.module[0].weight.grad
    assert gradient is not None
    assert same_on_all_ranks(gradient)
    model.synchronize()  # nothing is owed any more


def check_parallel_side_by_side(rank: int, size: int) -> None:
    """Two models of equal names, and a compression that keeps more than a type."""

    class Halves:
        @staticmethod
        def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, object]:
            return (tensor.flatten() / tensor.numel()), tensor.shape

        @staticmethod
        def decompress(tensor: torch.Tensor, context: object) -> torch.Tensor:
            assert isinstance(context, torch.Size)
            return tensor.view(context) * tensor.numel()

    torch.manual_seed(0)
    first = DistributedDataParallel(network(), compression=Halves)
    second = DistributedDataParallel(torch.nn.Linear(6, 5).double())
    alone = copy.deepcopy(first.module)
    batch = batches(size)[0]
    (first(batch.chunk(size)[rank]).mean() + second(batch).mean()).backward()
    alone(batch).mean().backward()
    for a, b in zip(alone.parameters(), first.module.parameters(), strict=True):
        assert torch.allclose(a.grad, b.grad, rtol=0, atol=EXACT)


def check_hook(rank: int, size: int) -> None:
    """torch's DDP in a world of one process, with gloo; the hook averages over the job."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(rank)
    model, names = network(), [thread.name for thread in threading.enumerate()]
    bps.broadcast_parameters(model.state_dict(), root_rank=0)
    alone = copy.deepcopy(model)
    parallel = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.0001)
    parallel.register_comm_hook(None, ddp_comm_hook)
    for reference, trained in ((alone, model),):
        expected, optimizer = Adam(reference.parameters()), Adam(trained.parameters())
        for batch in batches(size):
            expected.zero_grad()
            reference(batch).pow(2).mean().backward()
            expected.step()
            optimizer.zero_grad()
            parallel(batch.chunk(size)[rank]).pow(2).mean().backward()
            optimizer.step()
    assert difference(alone, model) < EXACT
    small = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    bps.broadcast_parameters(small.state_dict(), root_rank=0, prefix="small.")
    small.register_comm_hook(DDPHookState("small", bps.Compression.fp16), ddp_comm_hook)
    small(torch.ones(1, 4) * rank).sum().backward()
    assert small.module.weight.grad.dtype == torch.float32
    assert torch.allclose(small.module.weight.grad, torch.full((4, 4), (size - 1) / 2))
    assert "byteps-hook-model" not in names
    dist.destroy_process_group()


def check_hook_error(rank: int, size: int) -> None:
    """A bucket that differs between ranks is an error in backward, on every rank."""
    if size == 1:
        return
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    model.register_comm_hook(DDPHookState("mismatched"), ddp_comm_hook)
    if rank == 0:  # takes the name of the bucket for another shape
        with pytest.raises(MismatchError, match="mismatched"):
            bps.push_pull(torch.ones(1, 5), name="DDPHook.mismatched.0")
    else:
        loss = model(torch.ones(1, 4)).sum()
        with pytest.raises((MismatchError, RuntimeError), match="mismatched"):
            loss.backward()
    dist.destroy_process_group()


def check_batch_norm(rank: int, size: int) -> None:
    torch.manual_seed(3)
    for shape in ((5,), (5, 3), (5, 2, 3)):
        for affine in (True, False):
            kind = torch.nn.BatchNorm2d if len(shape) == 3 else torch.nn.BatchNorm1d
            whole = kind(5, affine=affine, momentum=None if affine else 0.1).double()
            if affine:
                torch.nn.init.uniform_(whole.weight)
                torch.nn.init.uniform_(whole.bias)
            parts = SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(whole))
            assert isinstance(parts, SyncBatchNorm)
            sizes = [2 + 3 * r for r in range(size)]
            compare_batch_norm(whole, parts, shape, sizes, rank)
            sizes[-1] = 0 if size > 1 else 2  # a rank without data
            compare_batch_norm(whole, parts, shape, sizes, rank)
            whole.eval(), parts.eval()
            batch = torch.randn(4, *shape, dtype=torch.float64)
            assert torch.allclose(whole(batch), parts(batch), rtol=0, atol=1e-10)


def compare_batch_norm(whole, parts, shape, sizes: list[int], rank: int) -> None:
    batch = torch.randn(sum(sizes), *shape, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(sum(sizes), *shape, dtype=torch.float64)
    mine = batch.detach().split(sizes)[rank].clone().requires_grad_()
    expected, output = whole(batch), parts(mine)
    (expected * weights).sum().backward()
    (output * weights.split(sizes)[rank]).sum().backward()
    pairs = [
        (expected.split(sizes)[rank], output),
        (batch.grad.split(sizes)[rank], mine.grad),
        (whole.running_mean, parts.running_mean),
        (whole.running_var, parts.running_var),
        (whole.num_batches_tracked, parts.num_batches_tracked),
    ]
    for a, b in zip(whole.parameters(), parts.parameters(), strict=True):
        pairs.append((a.grad, bps.push_pull(b.grad, average=False, name="batch norm")))
        a.grad = b.grad = None
    for a, b in pairs:
        assert torch.allclose(a, b, rtol=0, atol=1e-10)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    checks.run(sys.modules[__name__], checks_cross_barrier, checks_stepping)
