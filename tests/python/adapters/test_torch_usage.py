"""How an optimizer asks which parameters have gradients, against a native module of pure Python."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from wrapped import loss_of, wrap  # noqa: E402

from byteps.common.errors import MismatchError  # noqa: E402

pytestmark = pytest.mark.usefixtures("initialized")


def test_the_question_who_has_gradients_names_what_is_trained(model, core) -> None:
    def question() -> str:
        loss_of(model).backward()
        optimizer.step()
        optimizer.zero_grad()
        (asked,) = (item for item in core.started if item.name.endswith(".used"))
        core.started.clear()
        return asked.detail

    optimizer = wrap(model, groups=[[model[2].weight, model[2].bias]])
    ends = "2.weight in Gradient.group.0, 2.bias in Gradient.group.0"
    assert question() == f"device cpu; 4 parameters: 0.weight, 0.bias, {ends}"
    model[0].weight.requires_grad_(False)
    assert question() == f"device cpu; 3 parameters: 0.bias, {ends}"
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    optimizer.step()
    assert core.started[-1].detail == "device cpu; 0 parameters: "


def test_gradients_that_others_do_not_have_are_not_waited_for(model, core) -> None:
    optimizer = wrap(model)
    core.failing["byteps.optimizer.used"] = MismatchError.code
    loss_of(model).backward()
    with pytest.raises(MismatchError, match="used failed"):
        optimizer.step()
    assert not any(item.complete for item in core.started if "Gradient" in item.name)
    # Their names are free when they are over.
    core.failing.clear()
    for item in core.started:
        item.complete = True
    optimizer.zero_grad()
    loss_of(model).backward()
    optimizer.step()
