"""CrossBarrier: what modules read, and what is left of it, against a module of pure Python."""

from __future__ import annotations

import copy
import gc
import io
import threading

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import fake_core  # noqa: E402
from torch.nn.utils import prune  # noqa: E402

from byteps.torch.cross_barrier import CrossBarrier  # noqa: E402

pytestmark = pytest.mark.usefixtures("initialized")


@pytest.fixture
def slow(monkeypatch) -> None:
    """A network that is slower than a forward pass."""
    wait, never = fake_core.FakeSession.wait, threading.Event()

    def later(*arguments) -> None:
        never.wait(0.01)
        wait(*arguments)

    monkeypatch.setattr(fake_core.FakeSession, "wait", later)


class Listed(torch.nn.Module):
    """Reads parameters of modules that are never called."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.factors = torch.nn.ParameterList([torch.ones(4), torch.ones(4)])
        self.terms = torch.nn.ParameterDict({"one": torch.zeros(4)})
        self.quiet = torch.nn.Sequential(torch.nn.Linear(4, 4))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        hidden = self.first(batch) * self.factors[0] * self.factors[1] + self.terms["one"]
        return torch.nn.functional.linear(hidden, self.quiet[0].weight, self.quiet[0].bias)


class Attending(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.inner(batch, batch, batch)[0]


def pruned() -> torch.nn.Module:
    layer = torch.nn.Linear(4, 4)
    prune.random_unstructured(layer, "weight", 0.5)
    return layer


KINDS = {
    "lists": Listed,
    "attention": Attending,
    "spectral norm": lambda: torch.nn.utils.spectral_norm(torch.nn.Linear(4, 4)),
    "weight norm": lambda: torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 4)),
    "pruned": pruned,
}


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("kind", KINDS)
def test_modules_read_weights_after_their_update(kind) -> None:
    torch.manual_seed(0)
    # The first layer keeps the updates of the others behind its own.
    model, alone = (torch.nn.Sequential(torch.nn.Linear(4, 4), KINDS[kind]()) for _ in range(2))
    alone.load_state_dict(model.state_dict())
    batch = torch.randn(2, 3, 4)
    expected = torch.optim.SGD(alone.parameters(), lr=0.1)
    optimizer = CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(3):
        results = []
        for net, stepping in ((alone, expected), (model, optimizer)):
            stepping.zero_grad()
            results.append(net(batch))
            results[-1].pow(2).sum().backward()
            stepping.step()
        assert torch.allclose(*results), kind
    alone.eval(), model.eval()
    assert torch.allclose(alone(batch), model(batch))


@pytest.mark.usefixtures("slow")
def test_a_loaded_state_is_not_updated_by_an_earlier_step() -> None:
    model = torch.nn.Linear(2, 2)
    state = copy.deepcopy(model.state_dict())
    optimizer = CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=0.1))
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    model.load_state_dict(state)
    optimizer.synchronize()
    assert torch.equal(model.weight, state["weight"])


def trained() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = Listed()
    optimizer = CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=0.1))
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    optimizer.synchronize()
    return model, optimizer


def test_a_model_is_saved_and_copied_without_its_wrapper() -> None:
    model, _kept = trained()
    saved = io.BytesIO()
    torch.save(model, saved)
    assert b"byteps" not in saved.getvalue()
    saved.seek(0)
    for again in (torch.load(saved, weights_only=False), copy.deepcopy(model)):
        assert torch.equal(again(torch.ones(1, 4)), model(torch.ones(1, 4)))
        again.load_state_dict(model.state_dict())


def test_a_dropped_wrapper_leaves_no_hook() -> None:
    model, optimizer = trained()
    del optimizer
    gc.collect()
    for module in model.modules():
        assert not module._forward_pre_hooks
        assert not module._state_dict_pre_hooks
        assert not module._load_state_dict_pre_hooks
    assert not any(p._post_accumulate_grad_hooks for p in model.parameters())


def test_an_accumulation_that_the_model_dropped(core) -> None:
    model = torch.nn.Linear(2, 2)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="backward_passes_per_step is 0"):
        CrossBarrier(model, inner, backward_passes_per_step=0)
    optimizer = CrossBarrier(model, inner, backward_passes_per_step=2)
    for _ in range(3):
        model(torch.ones(1, 2)).sum().backward()
        model.zero_grad()
        optimizer.zero_grad()
    assert core.started == []


def test_an_optimizer_gets_the_arguments_that_were_given() -> None:
    class Plain(torch.optim.SGD):
        def step(self, factor=1.0):
            for parameter in self.param_groups[0]["params"]:
                parameter.grad.mul_(factor)
            super().step()

    model = torch.nn.Linear(2, 1, bias=False)
    before = model.weight.detach().clone()
    optimizer = CrossBarrier(model, Plain(model.parameters(), lr=1.0))
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step(factor=2.0)
    optimizer.synchronize()
    assert torch.allclose(model.weight, before - 2.0)
