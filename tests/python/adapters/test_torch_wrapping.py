"""What a wrapped optimizer shares with the one it was made of, and how long it lives."""

from __future__ import annotations

import copy
import pickle

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from wrapped import gradients_of, loss_of, wrap  # noqa: E402

import byteps.torch as bps  # noqa: E402

pytestmark = pytest.mark.usefixtures("initialized")


def test_class_groups_and_state_are_shared(model) -> None:
    inner = torch.optim.Adam(model.parameters(), lr=0.1)
    outer = bps.DistributedOptimizer(inner, model.named_parameters())
    assert type(outer).__name__ == "Adam"
    assert isinstance(outer, torch.optim.Adam)
    assert outer.param_groups is inner.param_groups
    assert outer.state is inner.state


def test_what_cannot_be_copied_or_wrapped_again_says_so(model) -> None:
    optimizer = wrap(model)
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"save its state_dict\(\)"):
            copying(optimizer)
    with pytest.raises(ValueError, match="distributed already"):
        bps.DistributedOptimizer(optimizer, model.named_parameters())


def test_an_optimizer_whose_constructor_needs_more_than_parameters(model) -> None:
    class Needy(torch.optim.SGD):
        def __init__(self, params, must_be_given):
            super().__init__(params, lr=must_be_given)

    outer = bps.DistributedOptimizer(Needy(model.parameters(), 0.1), model.named_parameters())
    loss_of(model).backward()
    outer.step()


def test_a_scheduler_bound_to_the_inner_optimizer_does_not_replace_step(model, core) -> None:
    inner = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(inner, 1, gamma=0.5)
    outer = bps.DistributedOptimizer(inner, model.named_parameters())
    loss_of(model).backward()
    outer.step()
    inner.step()
    scheduler.step()
    assert len(gradients_of(core)) == 4
    assert outer.param_groups[0]["lr"] == 0.5


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
def test_a_loaded_state_is_that_of_the_inner_optimizer_too(model) -> None:
    inner = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(inner, 1, gamma=0.5)
    outer = bps.DistributedOptimizer(inner, model.named_parameters())
    other = torch.optim.SGD([torch.ones_like(p) for p in model.parameters()], lr=8.0, momentum=0.5)
    outer.load_state_dict(other.state_dict())
    assert outer.param_groups is inner.param_groups
    assert outer.state is inner.state
    loss_of(model).backward()
    outer.step()
    scheduler.step()
    assert outer.param_groups[0]["momentum"] == 0.5
    assert outer.param_groups[0]["lr"] == 0.5 * 8.0
    assert len(inner.state) == 4


def test_step_hooks_run_once_also_after_a_loaded_state(model) -> None:
    calls = []
    optimizer = wrap(model)
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    loss_of(model).backward()
    optimizer.step()
    assert len(calls) == 1


def test_a_model_may_be_wrapped_again(model, core) -> None:
    for phase in range(2):
        optimizer = wrap(model)
        for _ in range(2):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
            assert optimizer.param_groups[0]["lr"] > 0  # looking keeps nothing alive
        assert len(gradients_of(core)) == 8 * (phase + 1)
    del optimizer
    assert not any(p._post_accumulate_grad_hooks for p in model.parameters())
