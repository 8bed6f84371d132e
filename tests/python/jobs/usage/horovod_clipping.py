"""A script as Horovod's documentation shows them, with the import changed: clipped gradients.

One way clips between synchronize() and step(), as the documentation asks. The others leave out
synchronize(), which is right in a program of one process and makes replicas differ with Horovod.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812

import byteps.torch as hvd

hvd.init()
torch.set_num_threads(1)
CLIP = 0.05
STEPS = 8


def new_model() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(5, 16, dtype=torch.float64),
        torch.nn.Tanh(),
        torch.nn.Linear(16, 1, dtype=torch.float64),
    )


def batch_of(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1000 * step + rank)
    data = (1 + 4 * rank) * torch.randn(8, 5, generator=generator, dtype=torch.float64)
    return data, data.sum(1, keepdim=True)


def clip_norm(model: torch.nn.Module) -> None:
    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)


def clip_value(model: torch.nn.Module) -> None:
    torch.nn.utils.clip_grad_value_(model.parameters(), CLIP)


def clip_by_hand(model: torch.nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad = parameter.grad * min(1.0, CLIP / (parameter.grad.norm() + 1e-6))


def alone(clip: Callable[[torch.nn.Module], None]) -> torch.nn.Module:
    """What one process makes of the batches of all ranks."""
    model = new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    for step in range(STEPS):
        optimizer.zero_grad()
        for rank in range(hvd.size()):
            data, target = batch_of(rank, step)
            (F.mse_loss(model(data), target) / hvd.size()).backward()
        clip(model)
        optimizer.step()
    return model


def together(clip: Callable[[torch.nn.Module], None], synchronizes: bool) -> torch.nn.Module:
    model = new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for step in range(STEPS):
        optimizer.zero_grad()
        data, target = batch_of(hvd.rank(), step)
        F.mse_loss(model(data), target).backward()
        if synchronizes:
            optimizer.synchronize()
            clip(model)
            with optimizer.skip_synchronize():
                optimizer.step()
        else:
            clip(model)
            optimizer.step()
    return model


for clip in (clip_norm, clip_value, clip_by_hand):
    expected = list(alone(clip).parameters())
    for synchronizes in (True, False):
        what = f"{clip.__name__}, synchronizes {synchronizes}"
        try:
            model = together(clip, synchronizes)
        except hvd.HorovodInternalError as error:
            # An error is allowed where the program is wrong; then all ranks have it.
            assert not synchronizes, what
            raised = [type(error).__name__]
        else:
            raised = []
            for parameter, right in zip(model.parameters(), expected, strict=True):
                assert torch.allclose(parameter, right, rtol=1e-9), what
            hvd.check_replicas(model)
        assert len(set(map(tuple, hvd.allgather_object(raised, name="raised")))) == 1, what


def unused_on_some(clips_each_pass: bool) -> tuple[torch.nn.Module, list[str]]:
    """Ranks use different layers, and accumulate; all that they write is one process' habit."""
    model = new_model()
    extra = torch.nn.Linear(5, 1, dtype=torch.float64)
    model.add_module("extra", extra)
    with torch.no_grad():
        extra.weight.fill_(0.1)
        extra.bias.fill_(0.2)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        named_parameters=model.named_parameters(),
        backward_passes_per_step=2,
    )
    errors = []
    for step in range(STEPS):
        optimizer.zero_grad()
        data, target = batch_of(hvd.rank(), step)
        for _ in range(2):
            result = model[2](model[1](model[0](data)))
            if hvd.rank() % 2 or step % 3 == 0:
                result = result + extra(data)
            F.mse_loss(result, target).backward()
            if clips_each_pass:
                clip_norm(model)
        clip_norm(model)
        try:
            optimizer.step()
        except hvd.HorovodInternalError as error:
            errors.append(f"step {step}: {type(error).__name__}")
            optimizer.zero_grad()
    return model, errors


for clips_each_pass in (False, True):
    model, errors = unused_on_some(clips_each_pass)
    every = hvd.allgather_object(errors, name="errors")
    assert all(found == errors for found in every), every
    hvd.check_replicas(model)  # the right step, or no step: never two models
    if hvd.rank() == 0:
        print(f"clips each pass {clips_each_pass}: {errors}", flush=True)
print("all right")
