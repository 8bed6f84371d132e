"""byteps.misc.imagenet18, against a native module of pure Python."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from byteps.misc import imagenet18  # noqa: E402

pytestmark = pytest.mark.usefixtures("initialized")


def test_half_precision_with_masters(core) -> None:
    model = torch.nn.Linear(2, 1).half()
    masters = [p.detach().float() for p in model.parameters()]
    before = [master.clone() for master in masters]
    optimizer = imagenet18.DistributedOptimizer(
        torch.optim.SGD(masters, lr=1.0),
        model.named_parameters(),
        half=True,
        fp16_params=list(model.parameters()),
        fp32_params=masters,
        loss_scale=8,
    )
    imagenet18.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer.zero_grad()
    (model.weight.sum() * 3 * 8 + model.bias.sum() * 8).backward()
    optimizer.step()
    gradients = [item for item in core.started if item.operation.name == "SUM"]
    assert {item.dtype.name for item in gradients} == {"FLOAT16"}
    assert torch.allclose(masters[0], before[0] - 3)
    assert torch.allclose(masters[1], before[1] - 1)
    assert torch.equal(model.weight, masters[0].half())
    assert optimizer.param_groups[0]["lr"] == 1.0


def test_without_half_it_is_the_plain_one(core) -> None:
    model = torch.nn.Linear(2, 1)
    inner = torch.optim.SGD(model.parameters(), lr=1.0)
    optimizer = imagenet18.DistributedOptimizer(inner, model.named_parameters())
    assert isinstance(optimizer, torch.optim.SGD)
    with pytest.raises(ValueError, match="fp16_params"):
        imagenet18.DistributedOptimizer(inner, half=True)
