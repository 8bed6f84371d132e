"""Gradients of a DistributedOptimizer that somebody changes after backward."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from wrapped import gradients_of, loss_of, wrap  # noqa: E402

import byteps.torch as bps  # noqa: E402

pytestmark = pytest.mark.usefixtures("initialized")


def test_what_is_done_to_gradients_after_backward_is_done_to_averages(model, core) -> None:
    optimizer = wrap(model, op=bps.Sum)
    alone = copy.deepcopy(model)
    loss_of(model).backward()
    assert all(item.complete for item in core.started)
    loss_of(alone).backward()
    for parameter, own in zip(model.parameters(), alone.parameters(), strict=True):
        assert torch.equal(parameter.grad, own.grad * 2)
        parameter.grad.data.clamp_(-0.1, 0.1)
        own.grad = torch.clamp(own.grad * 2, -0.1, 0.1)
    optimizer.step()
    torch.optim.SGD(alone.parameters(), lr=0.1).step()
    for parameter, own in zip(model.parameters(), alone.parameters(), strict=True):
        assert torch.equal(parameter, own)
    assert len(gradients_of(core)) == 4


def test_the_average_is_written_back_when_the_model_dropped_its_gradients(model) -> None:
    """What is unused on this rank leaves the gradients under way until the step."""
    optimizer = wrap(model)
    model[2].weight.sum().backward()
    model.zero_grad()
    optimizer.synchronize()
    assert model[2].weight.grad is not None


def _write(weight) -> None:
    weight.grad.mul_(0.5)


def _put_another(weight) -> None:
    weight.grad = weight.grad * 0.5


@pytest.mark.parametrize("change", [_write, _put_another])
def test_a_gradient_that_is_changed_on_its_way_is_an_error(model, core, change) -> None:
    optimizer = wrap(model)
    for _ in range(2):
        before = [p.detach().clone() for p in model.parameters()]
        model[2].weight.sum().backward()  # the others are unused: the step is not settled yet
        change(model[2].weight)
        with pytest.raises(ValueError, match=r"this rank changed the gradient of '2\.weight'"):
            optimizer.step()
        assert all(item.complete for item in core.started)
        for old, parameter in zip(before, model.parameters(), strict=True):
            assert torch.equal(old, parameter)
        optimizer.zero_grad()
    model[2].weight.sum().backward()
    optimizer.step()
