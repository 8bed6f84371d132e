"""A worker: the wrappers beside DistributedOptimizer, where training does not look."""

from __future__ import annotations

import copy
import gc
import threading
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import byteps.torch as bps
from byteps.common.errors import MismatchError
from byteps.torch.cross_barrier import CrossBarrier
from byteps.torch.ddp_hook import DDPHookState, ddp_comm_hook
from byteps.torch.parallel import DistributedDataParallel
from byteps.torch.sync_batch_norm import SyncBatchNorm

Adam = torch.optim.Adam
EXACT = 1e-12


def network() -> torch.nn.Module:
    layers = [torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)]
    return torch.nn.Sequential(*layers).double()


def batches(size: int, steps: int = 6) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(4 * size, 6, generator=generator).double() for _ in range(steps)]


def difference(first: torch.nn.Module, second: torch.nn.Module) -> float:
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


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


MAKERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True, amsgrad=True),
    "fused": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "tensor as rate": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01), foreach=False),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "Adadelta": torch.optim.Adadelta,
    "Rprop": torch.optim.Rprop,
    "NAdam": torch.optim.NAdam,
    "RAdam": torch.optim.RAdam,
    "ASGD": torch.optim.ASGD,
}


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
    assert "byteps-cross-barrier" not in [t.name for t in threading.enumerate()]
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


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    bps.init()
    rank, size = bps.rank(), bps.size()
    for name, check in sorted(globals().items()):
        if name.startswith("check_"):
            check(rank, size)
            bps.barrier(f"after {name}")
    bps.shutdown()
    print(f"all right {rank}/{size}")


if __name__ == "__main__":
    main()
