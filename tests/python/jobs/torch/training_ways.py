"""A worker: trains in every way that byteps offers; each must equal training alone on all data.

Rank 1 skips a layer in every other step, and nobody uses the last one.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch_features import HAS_OPERATIONS, say_what_is_skipped, sharding

import byteps.torch as bps
from byteps.torch.compiled.push_pull import push_pull_start, push_pull_wait
from byteps.torch.cross_barrier import CrossBarrier
from byteps.torch.ddp_hook import DDPHookState, ddp_comm_hook
from byteps.torch.parallel import DistributedDataParallel

STEPS = 6
TorchDDP = torch.nn.parallel.DistributedDataParallel
Step = Callable[[torch.Tensor, bool], None]
OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
}


# Another device than the host's is one that Python has defined. For such a one torch has no pinned
# memory, with which its DDP looks for unused parameters.
ON_HOST = torch.empty(0).is_cpu


class Net(torch.nn.Module):
    def __init__(self, unused: bool = True) -> None:
        super().__init__()
        self.first = torch.nn.Linear(6, 8)
        self.second = torch.nn.Linear(8, 8)
        self.third = torch.nn.Linear(8, 1)
        if unused:
            self.unused = torch.nn.Linear(3, 3)

    def forward(self, batch: torch.Tensor, skip: bool = False) -> torch.Tensor:
        hidden = torch.tanh(self.first(batch))
        if not skip:
            hidden = torch.tanh(self.second(hidden))
        return self.third(hidden)


def loss_of(model: torch.nn.Module, batch: torch.Tensor, skip: bool) -> torch.Tensor:
    return model(batch, skip).pow(2).mean()


def batches() -> Iterator[tuple[list[torch.Tensor], list[bool]]]:
    """Yield for each step the batch of each rank, and whether it skips a layer."""
    generator = torch.Generator().manual_seed(1)
    size = bps.size()
    for step in range(STEPS):
        data = torch.randn(4 * size, 6, generator=generator, dtype=torch.float64)
        yield list(data.chunk(size)), [rank == 1 and step % 2 == 0 for rank in range(size)]


def alone(model: torch.nn.Module, optimizer: torch.optim.Optimizer, skips: bool) -> None:
    for parts, skipping in batches():
        optimizer.zero_grad()
        losses = [
            loss_of(model, part, skips and skip) for part, skip in zip(parts, skipping, strict=True)
        ]
        (sum(losses) / len(losses)).backward()
        optimizer.step()


def in_two_passes(model: torch.nn.Module, batch: torch.Tensor, skip: bool) -> None:
    for half in batch.chunk(2):
        (loss_of(model, half, skip) / 2).backward()


def plain(model, optimizer) -> Step:
    optimizer = bps.DistributedOptimizer(optimizer, model.named_parameters())

    def step(batch: torch.Tensor, skip: bool) -> None:
        optimizer.zero_grad()
        loss_of(model, batch, skip).backward()
        optimizer.step()

    return step


def accumulating(model, optimizer) -> Step:
    named = model.named_parameters()
    optimizer = bps.DistributedOptimizer(optimizer, named, backward_passes_per_step=2)

    def step(batch: torch.Tensor, skip: bool) -> None:
        optimizer.zero_grad()
        in_two_passes(model, batch, skip)
        optimizer.step()

    return step


def crossing(model, optimizer) -> Step:
    optimizer = CrossBarrier(model, optimizer, num_steps=STEPS)

    def step(batch: torch.Tensor, skip: bool) -> None:
        loss_of(model, batch, skip).backward()
        optimizer.step()

    return step


def compiled_crossing(model, optimizer) -> Step:
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = CrossBarrier(model, optimizer, num_steps=STEPS)

    def step(batch: torch.Tensor, skip: bool) -> None:
        loss_of(compiled, batch, skip).backward()
        optimizer.step()

    return step


def crossing_accumulating(model, optimizer) -> Step:
    optimizer = CrossBarrier(model, optimizer, backward_passes_per_step=2, num_steps=STEPS)

    def step(batch: torch.Tensor, skip: bool) -> None:
        optimizer.zero_grad()
        in_two_passes(model, batch, skip)
        optimizer.step()

    return step


def wrapped(model, optimizer) -> Step:
    parallel = DistributedDataParallel(model)

    def step(batch: torch.Tensor, skip: bool) -> None:
        optimizer.zero_grad()
        loss_of(parallel, batch, skip).backward()
        optimizer.step()

    return step


def wrapped_accumulating(model, optimizer) -> Step:
    parallel = DistributedDataParallel(model)

    def step(batch: torch.Tensor, skip: bool) -> None:
        optimizer.zero_grad()
        first, second = batch.chunk(2)
        with parallel.no_sync():
            (loss_of(parallel, first, skip) / 2).backward()
        (loss_of(parallel, second, skip) / 2).backward()
        optimizer.step()

    return step


def torch_ddp(
    model, optimizer, hook: bool = False, compiled: bool = False, **options: bool
) -> Step:
    """Train with torch's DDP over the backend byteps."""
    parallel = TorchDDP(model, find_unused_parameters=ON_HOST, **options)
    if hook:
        parallel.register_comm_hook(DDPHookState("hooked"), ddp_comm_hook)
    forward = torch.compile(parallel, backend="aot_eager") if compiled else parallel

    def step(batch: torch.Tensor, skip: bool) -> None:
        optimizer.zero_grad()
        loss_of(forward, batch, skip).backward()
        optimizer.step()

    return step


def compiled_plain(model, optimizer) -> Step:
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = bps.DistributedOptimizer(optimizer, model.named_parameters())

    def step(batch: torch.Tensor, skip: bool) -> None:
        optimizer.zero_grad()
        loss_of(compiled, batch, skip).backward()
        optimizer.step()

    return step


WAYS = {
    "DistributedOptimizer": plain,
    "DistributedOptimizer, two passes": accumulating,
    "DistributedOptimizer, compiled": compiled_plain,
    "CrossBarrier": crossing,
    "CrossBarrier, compiled": compiled_crossing,
    "CrossBarrier, two passes": crossing_accumulating,
    "DistributedDataParallel": wrapped,
    "DistributedDataParallel, no_sync": wrapped_accumulating,
    "torch DDP": torch_ddp,
    "torch DDP, hook": lambda m, o: torch_ddp(m, o, hook=True),
    "torch DDP, views": lambda m, o: torch_ddp(m, o, gradient_as_bucket_view=True),
    "torch DDP, hook, views": lambda m, o: torch_ddp(m, o, True, gradient_as_bucket_view=True),
    "torch DDP, compiled": lambda m, o: torch_ddp(m, o, compiled=True),
}


def difference(first: torch.nn.Module, second: torch.nn.Module) -> float:
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    return max((whole(a) - whole(b)).abs().max().item() for a, b in pairs)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    if not hasattr(tensor, "full_tensor"):
        return tensor.detach()
    # torch waits for the storage of what it has gathered, and a device that Python has defined
    # gives each view a storage of its own.
    return tensor.full_tensor() if ON_HOST else bps.allgather(tensor.to_local().detach())


def check_ways() -> None:
    torch.manual_seed(0)
    start = Net(unused=ON_HOST).double()
    for kind, make in OPTIMIZERS.items():
        expected = copy.deepcopy(start)
        alone(expected, make(expected.parameters()), skips=ON_HOST)
        assert difference(expected, start) > 1e-3
        for name, way in WAYS.items():
            model = copy.deepcopy(start)
            step = way(model, make(model.parameters()))
            for parts, skipping in batches():
                step(parts[bps.rank()], ON_HOST and skipping[bps.rank()])
            assert difference(expected, model) < 1e-12, (kind, name, difference(expected, model))
            bps.barrier(f"after {kind}, {name}")


def check_sharded(fully_shard: Callable[..., Any]) -> None:
    """FSDP2, whose unit is the layer: nothing may be skipped."""
    torch.manual_seed(0)
    start = Net(unused=False).double()
    expected = copy.deepcopy(start)
    alone(expected, torch.optim.Adam(expected.parameters(), lr=0.01), skips=False)
    model = copy.deepcopy(start)
    for layer in model.children():
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for parts, _ in batches():
        optimizer.zero_grad()
        loss_of(model, parts[bps.rank()], False).backward()
        optimizer.step()
    assert difference(expected, model) < 1e-12, difference(expected, model)


def check_compiled_step() -> None:
    """A whole step in one graph: gradients by torch.func, exchange by a start/wait pair."""
    torch.manual_seed(0)
    model = Net(unused=False).double()
    expected = copy.deepcopy(model)
    alone(expected, torch.optim.SGD(expected.parameters(), lr=0.05), skips=False)

    def loss(parameters: dict[str, torch.Tensor], batch: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, parameters, (batch,)).pow(2).mean()

    @torch.compile(fullgraph=True, backend="aot_eager")
    def step(parameters: dict[str, torch.Tensor], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        gradients = torch.func.grad(loss)(parameters, batch)
        handles = {name: push_pull_start(g, f"step.{name}") for name, g in gradients.items()}
        for name, handle in handles.items():
            push_pull_wait(gradients[name], handle)
        return {name: value - 0.05 * gradients[name] for name, value in parameters.items()}

    parameters = {name: p.detach().clone() for name, p in model.named_parameters()}
    for parts, _ in batches():
        parameters = step(parameters, parts[bps.rank()])
    for name, value in expected.named_parameters():
        assert (value - parameters[name]).abs().max() < 1e-12


def main() -> None:
    torch.set_num_threads(1)
    say_what_is_skipped()
    warnings.simplefilter("ignore")
    dist.init_process_group("byteps")
    with contextlib.ExitStack() as stack:
        stack.callback(dist.destroy_process_group)
        check_ways()
        fully_shard = sharding()
        if fully_shard is not None:
            check_sharded(fully_shard)
        if HAS_OPERATIONS:
            check_compiled_step()
    print(f"all right {bps.rank()}/{bps.size()}")


if __name__ == "__main__":
    main()
