"""A rank that trains a model with torch in several ways; each must give the weights of training
alone on all data. Several ranks may share one GPU. With the argument `cpu` it tries itself.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

import byteps.torch as bps
from byteps.torch.cross_barrier import CrossBarrier
from byteps.torch.ddp_hook import ddp_comm_hook
from byteps.torch.parallel import DistributedDataParallel

STEPS = 4
TorchDDP = torch.nn.parallel.DistributedDataParallel

dist.init_process_group("byteps")
rank, size = bps.rank(), bps.size()
name = sys.argv[1] if len(sys.argv) > 1 else "cuda"
if name == "cuda":
    torch.cuda.set_device(bps.local_rank() % torch.cuda.device_count())
torch.set_default_device(name)
torch.manual_seed(0)
start = torch.nn.Sequential(
    torch.nn.Linear(30, 200), torch.nn.Tanh(), torch.nn.Linear(200, 1)
).double()
data = [torch.randn(8 * size, 30, dtype=torch.float64) for _ in range(STEPS)]


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, mine: bool = True) -> None:
    """Train on this rank's part, or on all data."""
    for batch in data:
        part = batch.chunk(size)[rank] if mine else batch
        optimizer.zero_grad()
        model(part).pow(2).mean().backward()
        optimizer.step()


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer of all ways."""
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def optimizer_alone(model: torch.nn.Module) -> None:
    """Train with our optimizer."""
    train(model, bps.DistributedOptimizer(sgd(model), model.named_parameters()))


def compiled(model: torch.nn.Module) -> None:
    """Train a compiled model."""
    optimizer = bps.DistributedOptimizer(sgd(model), model.named_parameters())
    train(torch.compile(model, backend="aot_eager"), optimizer)


def crossing(model: torch.nn.Module) -> None:
    """Train across the barrier of a step."""
    optimizer = CrossBarrier(model, sgd(model), num_steps=STEPS)
    train(model, optimizer)


def wrapped(model: torch.nn.Module) -> None:
    """Train with our wrapper."""
    train(DistributedDataParallel(model), sgd(model))


def torch_ddp(model: torch.nn.Module) -> None:
    """Train with torch's wrapper over our backend."""
    train(TorchDDP(model, gradient_as_bucket_view=True), sgd(model))


def torch_ddp_with_hook(model: torch.nn.Module) -> None:
    """Train with torch's wrapper and our hook."""
    parallel = TorchDDP(model)
    parallel.register_comm_hook(None, ddp_comm_hook)
    train(parallel, sgd(model))


def sharded(model: torch.nn.Module) -> None:
    """Train with FSDP2 over our backend."""
    for layer in (model[0], model[2], model):
        fully_shard(layer)
    train(model, sgd(model))


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return all of a tensor, of which this rank may have a part."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor.detach()


expected = copy.deepcopy(start)
train(expected, sgd(expected), mine=False)
WAYS: tuple[Callable[[torch.nn.Module], None], ...] = (
    optimizer_alone, compiled, crossing, wrapped, torch_ddp, torch_ddp_with_hook, sharded,
)  # fmt: skip
for way in WAYS:
    model = copy.deepcopy(start)
    way(model)
    for one, other in zip(model.parameters(), expected.parameters(), strict=True):
        difference = (whole(one) - other).abs().max().item()
        if difference > 1e-10:
            raise SystemExit(f"{way.__name__}: rank {rank} is {difference} away from alone")
tables = []
for as_sparse in (False, True):
    torch.manual_seed(1)
    table = torch.nn.Embedding(10, 3, sparse=as_sparse, dtype=torch.float64)
    plain = torch.optim.SGD(table.parameters(), lr=0.5)
    optimizer = bps.DistributedOptimizer(plain, table.named_parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        table(torch.tensor([rank, step, rank])).pow(2).sum().backward()
        optimizer.step()
    tables.append(table.weight.detach())
if not torch.allclose(*tables, rtol=0, atol=1e-12):
    raise SystemExit("sparse gradients give other weights than dense ones")
dist.destroy_process_group()
print(f"all right: {len(WAYS)} ways of training, and sparse gradients", flush=True)
