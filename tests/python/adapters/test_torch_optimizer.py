"""DistributedOptimizer, against a native module of pure Python."""

from __future__ import annotations

import copy
import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch_features import HAS_SCALER, NO_FUSED, NO_SCALER, has_fused  # noqa: E402
from wrapped import exchanged, gradients_of, loss_of, wrap  # noqa: E402

import byteps.torch as bps  # noqa: E402
from byteps.common.errors import PeerLostError  # noqa: E402

pytestmark = pytest.mark.usefixtures("initialized")
needs_scaler = pytest.mark.skipif(not HAS_SCALER, reason=NO_SCALER)


def test_step_equals_a_step_alone_when_all_ranks_agree(model) -> None:
    alone = copy.deepcopy(model)
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
    distributed = wrap(model)
    for _ in range(3):
        for one, trained in ((optimizer, alone), (distributed, model)):
            one.zero_grad()
            loss_of(trained).backward()
            one.step()
    for expected, parameter in zip(alone.parameters(), model.parameters(), strict=True):
        assert torch.equal(expected, parameter)


def test_names_are_declared_gradients_first_in_alphabetical_order(model, core) -> None:
    wrap(model)
    names = sorted(name for name, _ in model.named_parameters())
    assert core.declared == [
        f"byteps.{prefix}.{name}" for prefix in ("Gradient", "Parameter") for name in names
    ]


def test_parameters_near_the_input_are_most_urgent(model, core) -> None:
    _kept = wrap(model)
    loss_of(model).backward()
    priorities = {o.name: o.priority for o in core.started if ".Gradient." in o.name}
    order = [f"byteps.Gradient.{name}" for name, _ in model.named_parameters()]
    assert sorted(priorities, key=lambda name: -priorities[name]) == order
    assert len(set(priorities.values())) == len(order)


def test_gradients_leave_during_backward_and_only_once(model, core) -> None:
    optimizer = wrap(model)
    loss_of(model).backward()
    assert len(gradients_of(core)) == 4
    optimizer.step()
    assert len(gradients_of(core)) == 4


def test_names_without_named_parameters_do_not_collide_between_groups(core) -> None:
    parameters = [torch.nn.Parameter(torch.ones(1)) for _ in range(3)]
    groups = [{"params": parameters[:2]}, {"params": parameters[2:]}]
    _kept = bps.DistributedOptimizer(torch.optim.SGD(groups, lr=0.1))
    sum(p.sum() for p in parameters).backward()
    assert len(set(gradients_of(core))) == 3
    assert "byteps.Gradient.push_pull.noname.0" in gradients_of(core)


def test_bad_named_parameters(model) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for bad in (list(model.parameters()), [("a", 3)], [("a",)]):
        with pytest.raises(ValueError, match="should be a sequence of tuples"):
            bps.DistributedOptimizer(optimizer, bad)
    twice = [("a", p) for p in model.parameters()]
    with pytest.raises(ValueError, match=r"must be unique\. Found duplicates: a"):
        bps.DistributedOptimizer(optimizer, twice)


def test_some_parameters_may_be_unnamed(model, core) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    outer = bps.DistributedOptimizer(optimizer, list(model.named_parameters())[:1])
    loss_of(model).backward()
    outer.step()
    assert len(set(gradients_of(core))) == 4


def test_accumulation(model, core) -> None:
    optimizer = wrap(model, backward_passes_per_step=2)
    loss_of(model).backward()
    assert gradients_of(core) == []
    loss_of(model).backward()
    assert len(gradients_of(core)) == 4
    optimizer.step()
    optimizer.set_backward_passes_per_step(1)
    loss_of(model).backward()
    assert len(gradients_of(core)) == 8


def test_one_accumulation_too_many(model) -> None:
    optimizer = wrap(model)
    loss_of(model).backward()
    with pytest.raises(AssertionError, match=r"^Gradients were computed more than"):
        loss_of(model).backward()
    optimizer.step()


def test_unused_parameters_take_part_if_they_were_ever_used(model, core) -> None:
    optimizer = wrap(model)
    for known in (1, 4):
        optimizer.zero_grad()
        core.started.clear()
        model[2].weight.sum().backward()
        assert len(gradients_of(core)) == 1
        optimizer.step()
        assert len(gradients_of(core)) == known
        assert model[0].weight.grad is None  # as if alone
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()


def test_parameters_unfrozen_later_take_part(model, core) -> None:
    model[0].weight.requires_grad_(False)
    optimizer = wrap(model)
    loss_of(model).backward()
    optimizer.step()
    assert "byteps.Gradient.0.weight" not in gradients_of(core)
    model[0].weight.requires_grad_(True)
    optimizer.zero_grad()
    loss_of(model).backward()
    optimizer.step()
    assert "byteps.Gradient.0.weight" in gradients_of(core)


def test_clipping_between_synchronize_and_step(model, core) -> None:
    optimizer = wrap(model)
    before = [p.detach().clone() for p in model.parameters()]
    loss_of(model).backward()
    optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with optimizer.skip_synchronize():
            optimizer.step()
    assert len(gradients_of(core)) == 4
    for old, parameter in zip(before, model.parameters(), strict=True):
        assert torch.equal(old, parameter)


def test_a_second_exchange_is_warned_of(model) -> None:
    optimizer = wrap(model)
    loss_of(model).backward()
    optimizer.synchronize()
    with pytest.warns(UserWarning, match="skip_synchronize"):
        optimizer.step()


def test_a_closure_steps_on_averaged_gradients(model, core) -> None:
    optimizer = wrap(model)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    assert optimizer.step(closure) is not None
    assert len(gradients_of(core)) == 4
    assert all(item.complete for item in core.started)


def test_zero_grad_in_flight_is_refused(model) -> None:
    optimizer = wrap(model)
    loss_of(model).backward()
    with pytest.raises(AssertionError, match="zero_grad"):
        optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad()


def test_parameters_of_a_group_that_was_added_are_exchanged_at_once(model, core) -> None:
    optimizer = wrap(model[0])
    optimizer.add_param_group({"params": model[2].parameters()})
    loss_of(model).backward()
    assert len(gradients_of(core)) == 4
    optimizer.step()


def test_gradients_that_are_not_contiguous() -> None:
    weight = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3).t())
    optimizer = bps.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("w", weight)])
    (weight * weight).sum().backward()
    expected = weight.detach() * 2
    optimizer.synchronize()
    assert torch.equal(weight.grad, expected)


def test_fp16_compression(model, core) -> None:
    optimizer = wrap(model, compression=bps.Compression.fp16)
    loss_of(model).backward()
    optimizer.step()
    assert {item.dtype.name for item in exchanged(core)} == {"FLOAT16"}
    assert all(p.grad.dtype == torch.float32 for p in model.parameters())


def test_an_error_is_raised_after_all_gradients_are_done(model, core) -> None:
    core.failing["byteps.Gradient.0.bias"] = PeerLostError.code
    optimizer = wrap(model)
    loss_of(model).backward()
    with pytest.raises(PeerLostError):
        optimizer.step()
    assert all(item.complete for item in core.started)


def test_alone_nothing_is_exchanged(model, core) -> None:
    bps.shutdown()
    core.size = 1
    bps.init()
    optimizer = wrap(model)
    loss_of(model).backward()
    optimizer.step()
    assert core.started == []


def test_asynchronous_training_is_refused_aloud(model, monkeypatch) -> None:
    monkeypatch.setenv("BYTEPS_ENABLE_ASYNC", "1")
    with pytest.raises(NotImplementedError, match="BYTEPS_ENABLE_ASYNC"):
        wrap(model)


def test_two_optimizers_may_have_parameters_of_one_name(core) -> None:
    one, other = torch.nn.Linear(2, 1), torch.nn.Linear(3, 1)
    optimizers = [wrap(one), wrap(other)]
    (one(torch.ones(1, 2)) + other(torch.ones(1, 3))).sum().backward()
    for optimizer in optimizers:
        optimizer.step()
    assert sorted(gradients_of(core)) == [
        "byteps.Gradient.bias",
        "byteps.Gradient.bias#2",
        "byteps.Gradient.weight",
        "byteps.Gradient.weight#2",
    ]


def test_groups_have_parameters_of_this_optimizer_only(core) -> None:
    one, other = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(1))
    named = [("one", one), ("other", other)]
    optimizer = bps.DistributedOptimizer(
        torch.optim.SGD([one], lr=0.1), named, op=bps.Sum, num_groups=1
    )
    (one.sum() + other.sum()).backward()
    optimizer.step()
    assert (one.grad.item(), other.grad.item()) == (2.0, 1.0)
    with pytest.raises(ValueError, match="groups should be"):
        bps.DistributedOptimizer(torch.optim.SGD([one], lr=0.1), named, groups=[[one, other]])


def test_neighbours_travel_in_groups(model, core) -> None:
    optimizer = wrap(model, num_groups=2)
    loss_of(model).backward()
    optimizer.step()
    assert [item.name for item in exchanged(core)] == [
        "byteps.Gradient.group.1",
        "byteps.Gradient.group.0",
    ]
    assert [item.shape for item in exchanged(core)] == [(5,), (16,)]
    assert [item.priority for item in exchanged(core)] == [-2, 0]


def test_groups_of_given_parameters(model, core) -> None:
    groups = [[model[0].weight, model[2].weight]]
    optimizer = wrap(model, groups=groups)
    loss_of(model).backward()
    optimizer.step()
    assert sorted(gradients_of(core)) == [
        "byteps.Gradient.0.bias",
        "byteps.Gradient.2.bias",
        "byteps.Gradient.group.0",
    ]
    with pytest.raises(ValueError, match="groups should be"):
        wrap(model, groups=[[torch.ones(1)]])
    with pytest.raises(ValueError, match="in two groups"):
        wrap(model, groups=groups * 2)


def test_parameters_of_other_types_do_not_share_a_group(core) -> None:
    types = (torch.float32, torch.float64, torch.float32)
    parameters = [torch.nn.Parameter(torch.ones(2, dtype=dtype)) for dtype in types]
    optimizer = bps.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.1), num_groups=1)
    sum(p.sum() for p in parameters).backward()
    optimizer.step()
    assert sorted(item.shape for item in exchanged(core)) == [(2,), (4,)]


def test_a_group_with_unused_parameters_leaves_at_the_step(model, core) -> None:
    optimizer = wrap(model, num_groups=1)
    model[2].weight.sum().backward()
    assert core.started == []
    optimizer.step()
    assert len(exchanged(core)) == 1


def test_gradients_divided_before_they_are_added_up(model, core) -> None:
    optimizer = wrap(model, gradient_predivide_factor=4.0)
    loss_of(model).backward()
    expected = [p.grad.clone() for p in model.parameters()]
    optimizer.synchronize()
    for before, parameter in zip(expected, model.parameters(), strict=True):
        assert torch.allclose(before, parameter.grad)
    with pytest.raises(ValueError, match="predivide_factor not supported"):
        wrap(model, op=bps.Sum, gradient_predivide_factor=2.0)


def test_sums_of_gradients(model, core) -> None:
    optimizer = wrap(model, op=bps.Sum)
    loss_of(copied := copy.deepcopy(model)).backward()
    expected = [p.grad * 2 for p in copied.parameters()]
    loss_of(model).backward()
    optimizer.synchronize()
    for twice, parameter in zip(expected, model.parameters(), strict=True):
        assert torch.equal(twice, parameter.grad)


def test_other_ways_to_combine_are_refused(model) -> None:
    with pytest.raises(NotImplementedError, match="Adasum"):
        wrap(model, op=bps.Adasum)
    with pytest.raises(ValueError, match="op=Average or op=Sum"):
        wrap(model, op=bps.Max)
    with pytest.raises(ValueError, match="backward_passes_per_step is 0"):
        wrap(model, backward_passes_per_step=0)


def test_a_compressor_of_the_user(model, core) -> None:
    class Doubling:
        def __init__(self) -> None:
            self.calls = 0

        def compress(self, tensor):
            self.calls += 1
            return tensor.double(), "context"

        def decompress(self, tensor, context):
            assert context == "context"
            return tensor.float()

    compressor = Doubling()
    optimizer = wrap(model, compression=compressor)
    loss_of(model).backward()
    optimizer.step()
    assert compressor.calls == 4
    assert {item.dtype.name for item in exchanged(core)} == {"FLOAT64"}


@needs_scaler
@pytest.mark.parametrize("idiom", ["plain", "unscale"])
def test_a_gradient_scaler_sees_the_averages(model, core, idiom) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    optimizer = wrap(model)
    before = [p.detach().clone() for p in model.parameters()]
    scaler.scale(loss_of(model)).backward()
    scaled = [p.grad.clone() for p in model.parameters()]
    if idiom == "unscale":
        optimizer.synchronize()
        scaler.unscale_(optimizer)
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
    else:
        scaler.step(optimizer)
    scaler.update()
    assert len(gradients_of(core)) == 4
    for old, gradient, parameter in zip(before, scaled, model.parameters(), strict=True):
        assert torch.allclose(parameter, old - 0.1 * gradient / 8)
    optimizer.zero_grad()


@needs_scaler
@pytest.mark.parametrize("clear", ["optimizer", "model", "keep"])
def test_a_gradient_scaler_skips_a_step(model, core, clear) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    optimizer = wrap(model)
    before = [p.detach().clone() for p in model.parameters()]
    for factor in (float("inf"), 1.0):
        if clear == "optimizer":
            optimizer.zero_grad()
        else:
            model.zero_grad(set_to_none=clear == "model")
        scaler.scale(loss_of(model) * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        changed = not torch.equal(before[0], next(model.parameters()))
        assert changed == (factor == 1.0)
    assert scaler.get_scale() == 4.0
    assert len(gradients_of(core)) == 8


@pytest.mark.parametrize("options", [{"fused": True}, {"foreach": True}, {"capturable": False}])
def test_forms_of_todays_optimizers(model, core, options) -> None:
    if "fused" in options and not has_fused():
        pytest.skip(NO_FUSED)
    alone = copy.deepcopy(model)
    reference = torch.optim.AdamW(alone.parameters(), lr=0.1, **options)
    inner = torch.optim.AdamW(model.parameters(), lr=0.1, **options)
    optimizer = bps.DistributedOptimizer(inner, model.named_parameters())
    for _ in range(3):
        for one, trained in ((reference, alone), (optimizer, model)):
            one.zero_grad()
            loss_of(trained).backward()
            one.step()
    for expected, parameter in zip(alone.parameters(), model.parameters(), strict=True):
        assert torch.equal(expected, parameter)


def test_sparse_gradients_are_made_dense_if_asked(core) -> None:
    table = torch.nn.Embedding(5, 2, sparse=True)
    optimizer = bps.DistributedOptimizer(
        torch.optim.SGD(table.parameters(), lr=0.1),
        table.named_parameters(),
        sparse_as_dense=True,
    )
    table(torch.tensor([1, 1])).sum().backward()
    optimizer.step()
    assert [item.operation.name for item in exchanged(core)] == ["AVERAGE"]
    assert not table.weight.grad.is_sparse


def test_an_optimizer_that_takes_only_sparse_gradients_gets_them(core) -> None:
    table = torch.nn.Embedding(5, 2, sparse=True)
    alone = copy.deepcopy(table)
    inner, own = (torch.optim.SparseAdam(t.parameters(), lr=0.1) for t in (table, alone))
    optimizer = bps.DistributedOptimizer(inner, table.named_parameters(), sparse_as_dense=True)
    for stepping, trained in ((optimizer, table), (own, alone)):
        for words in ([1, 1], [3, 4]):
            stepping.zero_grad()
            trained(torch.tensor(words)).sum().backward()
            stepping.step()
    assert [item.operation.name for item in exchanged(core)] == ["AVERAGE"] * 2
    assert torch.equal(table.weight, alone.weight)


def test_a_closure_may_be_called_several_times(core) -> None:
    weight = torch.nn.Parameter(torch.tensor([3.0]))
    optimizer = bps.DistributedOptimizer(
        torch.optim.LBFGS([weight], lr=1.0, max_iter=5), [("w", weight)]
    )

    def closure():
        optimizer.zero_grad()
        loss = (weight * weight).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert abs(weight.item()) < 0.1
    assert len(gradients_of(core)) > 1
