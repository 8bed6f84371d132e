"""DistributedOptimizer between backward and step, against a native module of pure Python."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch_features import HAS_SCALER, NO_SCALER  # noqa: E402
from wrapped import exchanged, gradients_of, loss_of, wrap  # noqa: E402

import byteps.torch as bps  # noqa: E402
from byteps.misc import imagenet18  # noqa: E402

pytestmark = pytest.mark.usefixtures("initialized")
needs_scaler = pytest.mark.skipif(not HAS_SCALER, reason=NO_SCALER)


def weights_of(model) -> list[torch.Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def test_looking_between_passes_sends_nothing(model, core) -> None:
    optimizer = wrap(model, backward_passes_per_step=2)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5)
    loss_of(model).backward()
    schedule.get_last_lr()
    assert optimizer.param_groups[0]["lr"] == 0.05
    assert core.started == []
    loss_of(model).backward()
    assert all(item.complete for item in core.started)
    optimizer.step()
    assert len(gradients_of(core)) == 4


def test_looking_at_what_is_incomplete_sends_nothing(model, core) -> None:
    optimizer = wrap(model, num_groups=1)
    model[2].weight.sum().backward()
    assert optimizer.param_groups
    assert core.started == []
    optimizer.step()
    assert len(exchanged(core)) == 1


@needs_scaler
@pytest.mark.parametrize("idiom", ["plain", "unscale", "skip"])
@pytest.mark.parametrize("options", [{"num_groups": 1}, {"backward_passes_per_step": 2}])
def test_a_gradient_scaler_completes_what_is_incomplete(model, core, idiom, options) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    optimizer = wrap(model, **options)
    before = weights_of(model)
    for step in range(1, 3):
        scaler.scale(model[2].weight.sum()).backward()
        if idiom != "plain":
            scaler.unscale_(optimizer)
            assert all(item.complete for item in core.started)
            assert torch.equal(model[2].weight.grad, torch.ones_like(model[2].weight))
        if idiom == "skip":
            with optimizer.skip_synchronize():
                scaler.step(optimizer)
        else:
            scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        assert len(exchanged(core)) == step
    assert torch.allclose(model[2].weight, before[2] - 0.2)
    assert torch.equal(model[0].weight, before[0])


@needs_scaler
def test_a_gradient_scaler_looks_after_synchronize(model, core) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    optimizer = wrap(model, backward_passes_per_step=2)
    for step in range(1, 3):
        scaler.scale(loss_of(model)).backward()
        optimizer.synchronize()
        scaler.unscale_(optimizer)
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        assert len(gradients_of(core)) == 4 * step


def test_a_step_that_skips_an_exchange_that_nobody_made_makes_it(model, core) -> None:
    optimizer = wrap(model, backward_passes_per_step=2)
    loss_of(model).backward()
    with optimizer.skip_synchronize():
        optimizer.step()
    assert len(gradients_of(core)) == 4
    assert all(item.complete for item in core.started)


def test_half_an_accumulation_may_be_dropped(model, core) -> None:
    optimizer = wrap(model, backward_passes_per_step=2)
    for epoch in range(1, 3):
        loss_of(model).backward()
        optimizer.zero_grad()
        loss_of(model).backward()
        assert len(gradients_of(core)) == 4 * (epoch - 1)
        loss_of(model).backward()
        assert len(gradients_of(core)) == 4 * epoch
        optimizer.step()
        optimizer.zero_grad()


def test_what_another_rank_may_have_sent_cannot_be_dropped(model, core) -> None:
    optimizer = wrap(model, num_groups=1)
    model[2].weight.sum().backward()
    assert core.started == []
    with pytest.raises(AssertionError, match="zero_grad"):
        optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad()


def test_half_an_accumulation_of_halves_may_be_dropped(core) -> None:
    weight = torch.nn.Parameter(torch.ones(2, dtype=torch.float16))
    master = weight.detach().float()
    halves = {"half": True, "fp16_params": [weight], "fp32_params": [master]}
    inner = torch.optim.SGD([master], lr=1.0)
    with pytest.raises(ValueError, match="backward_passes_per_step is 0"):
        imagenet18.DistributedOptimizer(inner, backward_passes_per_step=0, **halves)
    optimizer = imagenet18.DistributedOptimizer(inner, backward_passes_per_step=2, **halves)
    for _ in range(3):
        weight.sum().backward()
        optimizer.zero_grad()
    assert core.started == []
    for _ in range(2):
        weight.sum().backward()
    with pytest.raises(AssertionError, match="zero_grad"):
        optimizer.zero_grad()


def test_another_number_of_passes_begins_with_a_step(model, core) -> None:
    optimizer = wrap(model, backward_passes_per_step=2)
    with pytest.raises(ValueError, match="backward_passes_per_step is 0; at least 1"):
        optimizer.set_backward_passes_per_step(0)
    loss_of(model).backward()
    optimizer.set_backward_passes_per_step(1)
    loss_of(model).backward()
    assert len(gradients_of(core)) == 4
    optimizer.set_backward_passes_per_step(3)
    with pytest.raises(AssertionError, match=r"^Gradients were computed more than"):
        loss_of(model).backward()
    optimizer.step()
    for _ in range(3):
        assert len(gradients_of(core)) == 4
        loss_of(model).backward()
    assert len(gradients_of(core)) == 8


class Plain(torch.optim.SGD):
    """An optimizer with signatures of its own."""

    factors: list[float]

    def step(self, factor=1.0):
        self.factors = [*getattr(self, "factors", ()), factor]
        super().step()

    def zero_grad(self):
        super().zero_grad(set_to_none=False)


def test_an_optimizer_gets_the_arguments_that_were_given(model) -> None:
    optimizer = bps.DistributedOptimizer(
        Plain(model.parameters(), lr=0.1), model.named_parameters()
    )
    loss_of(model).backward()
    optimizer.step()
    optimizer.zero_grad()
    assert not any(p.grad.any() for p in model.parameters())
    loss_of(model).backward()
    optimizer.synchronize()
    with optimizer.skip_synchronize():
        optimizer.step(factor=2.0)
    assert optimizer.factors == [1.0, 2.0]
    with pytest.raises(TypeError):
        optimizer.zero_grad(set_to_none=True)


def test_zero_grad_takes_its_arguments(model) -> None:
    optimizer = wrap(model)
    for arguments, more in (((False,), {}), ((), {"set_to_none": False})):
        loss_of(model).backward()
        optimizer.step()
        optimizer.zero_grad(*arguments, **more)
        assert not any(p.grad.any() for p in model.parameters())


def test_losses_of_closures_are_combined_as_gradients_are(model, core) -> None:
    optimizer = wrap(model, op=bps.Sum)
    for loss, expected in ((3.0, 6.0), (torch.tensor([2.0]), 4.0), (None, None), ("text", "text")):

        def closure(loss=loss):
            optimizer.zero_grad()
            loss_of(model).backward()
            return loss

        result = optimizer.step(closure)
        assert result == expected
        assert type(result) is type(loss)
    assert len([item for item in core.started if item.name.endswith(".loss")]) == 4


@needs_scaler
def test_scalers_of_libraries_wait_too_and_only_for_distributed_optimizers(model, core) -> None:
    class OwnScaler(torch.amp.GradScaler):
        """A scaler of a library, that does something more."""

        unscaled = 0

        def unscale_(self, optimizer):
            self.unscaled += 1
            return super().unscale_(optimizer)

    scaler = OwnScaler("cpu", init_scale=8.0)
    wrap(model)
    unscale = torch.amp.GradScaler.unscale_
    optimizer = wrap(model, num_groups=1)
    assert torch.amp.GradScaler.unscale_ is unscale  # wrapped once
    scaler.scale(model[2].weight.sum()).backward()
    scaler.unscale_(optimizer)
    assert len(exchanged(core)) == 1
    assert all(item.complete for item in exchanged(core))
    scaler.step(optimizer)
    scaler.update()
    assert scaler.unscaled == 1
    weight = torch.nn.Parameter(torch.ones(2))
    alone = torch.optim.SGD([weight], lr=1.0)
    scaler.scale(weight.sum()).backward()
    scaler.step(alone)
    assert weight.tolist() == [0.0, 0.0]
    disabled = torch.amp.GradScaler("cpu", enabled=False)
    core.started.clear()
    model[2].weight.sum().backward()
    disabled.unscale_(optimizer)
    assert core.started == []
