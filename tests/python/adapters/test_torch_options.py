"""Arguments of wrappers that make no sense, against a native module of pure Python."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from wrapped import loss_of, wrap  # noqa: E402

import byteps.torch as bps  # noqa: E402
from byteps.misc import imagenet18  # noqa: E402
from byteps.torch.cross_barrier import CrossBarrier  # noqa: E402
from byteps.torch.parallel import DistributedDataParallel  # noqa: E402

pytestmark = pytest.mark.usefixtures("initialized")

COMPRESSIONS = ("fp16", None, object(), torch.float16)
PASSES = (2.5, float("nan"), "2", None, True, 0, -1)
WRONG = {
    "compression": COMPRESSIONS,
    "backward_passes_per_step": PASSES,
    "gradient_predivide_factor": (0, 0.0, -1.0, float("nan"), float("inf"), "2", None),
    "process_set": (None, [0], 0),
    "groups": (2.0, "2", [2], [None], -1),
    "num_groups": (2.0, None, "2", -1),
}


def crossing(model, **options):
    return CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=0.1), **options)


def halved(model, **options):
    inner, own = torch.optim.SGD(model.parameters(), lr=0.1), list(model.parameters())
    more = {"half": True, "fp16_params": own, "fp32_params": own}
    return imagenet18.DistributedOptimizer(inner, model.named_parameters(), **more, **options)


def refuse(make, argument: str, value: object) -> None:
    word = "group" if "groups" in argument else argument
    with pytest.raises(ValueError, match=word) as raised:
        make(**{argument: value})
    assert type(raised.value) is ValueError


@pytest.mark.parametrize("argument", WRONG)
def test_of_an_optimizer(argument, model) -> None:
    for value in WRONG[argument]:
        refuse(partial(wrap, model), argument, value)
    assert not any(p._post_accumulate_grad_hooks for p in model.parameters())


@pytest.mark.parametrize("make", [crossing, halved])
def test_of_other_optimizers(make, model) -> None:
    for argument in ("compression", "backward_passes_per_step"):
        for value in WRONG[argument]:
            refuse(partial(make, model), argument, value)


def test_of_models() -> None:
    for value in COMPRESSIONS:
        refuse(partial(DistributedDataParallel, torch.nn.Linear(1, 1)), "compression", value)
        refuse(bps.DDPHookState, "compression", value)


def test_passes_of_a_later_step(model) -> None:
    optimizer = wrap(model)
    for value in PASSES:
        with pytest.raises(ValueError, match="backward_passes_per_step is"):
            optimizer.set_backward_passes_per_step(value)
    for value in (2, 2.0):  # a quotient of two batch sizes
        optimizer.set_backward_passes_per_step(value)


def test_numbers_of_numpy_are_numbers(model) -> None:
    options = {"gradient_predivide_factor": np.float32(2), "num_groups": np.int64(1)}
    optimizer = wrap(model, backward_passes_per_step=np.int32(1), **options)
    loss_of(model).backward()
    optimizer.step()
