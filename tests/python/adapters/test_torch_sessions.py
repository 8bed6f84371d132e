"""Names of wrappers in one session after the other, against a native module of pure Python."""

from __future__ import annotations

import copy
import io

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import byteps.torch as bps  # noqa: E402
from byteps.torch.cross_barrier import CrossBarrier  # noqa: E402
from byteps.torch.parallel import DistributedDataParallel  # noqa: E402

pytestmark = pytest.mark.usefixtures("initialized")


class Training:
    """A model in one kind of wrapper, and a step of it."""

    def __init__(self, kind: str) -> None:
        self.model = torch.nn.Linear(2, 2)
        inner = torch.optim.SGD(self.model.parameters(), lr=0.1)
        if kind == "optimizer":
            self.optimizer = bps.DistributedOptimizer(inner, self.model.named_parameters())
        elif kind == "groups":
            self.optimizer = bps.DistributedOptimizer(inner, num_groups=1)
        elif kind == "crossing":
            self.optimizer = CrossBarrier(self.model, inner)
        elif kind == "parallel":
            self.optimizer, self.model = inner, DistributedDataParallel(self.model)
        else:
            self.optimizer, self.model = inner, bps.SyncBatchNorm(2)

    def step(self) -> None:
        train(self)


def train(*trainings: Training) -> None:
    """Let the gradients of several be on their way at the same time, those of the last first."""
    batch = torch.ones(3, 2)
    for training in trainings:
        training.optimizer.zero_grad()
        batch = training.model(batch)
    batch.sum().backward()
    for training in trainings:
        training.optimizer.step()
        if hasattr(training.optimizer, "synchronize"):
            training.optimizer.synchronize()


def names(core) -> set[str]:
    """Return the names since the last call."""
    found = {item.name for item in core.started}
    core.started.clear()
    return found


def names_of(core, *trainings: Training) -> list[set[str]]:
    found = []
    for training in trainings:
        names(core)
        training.step()
        found.append(names(core))
    return found


def begin_anew() -> None:
    bps.shutdown()
    bps.init()


def begin_anew_with(core, size: int) -> None:
    core.size = size
    begin_anew()


KINDS = ("optimizer", "groups", "crossing", "parallel", "normalization")
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
def test_wrappers_of_two_sessions_have_different_names(kind, core) -> None:
    earlier = Training(kind)
    earlier.step()
    begin_anew()
    train(earlier, Training(kind))  # one of them would be in flight twice
    first, second = names_of(core, earlier, Training(kind))
    assert not first & second


@kinds
def test_wrappers_keep_their_names_when_their_order_is_another(kind, core) -> None:
    one, other = Training(kind), Training(kind)
    before = names_of(core, one, other)
    begin_anew()
    assert names_of(core, other, one) == before[::-1]
    third = Training(kind)
    assert not names_of(core, third)[0] & (before[0] | before[1])


@kinds
def test_wrappers_that_are_made_in_each_session_have_the_same_names(kind, core) -> None:
    """A rank that joined again has made those of this session only."""
    kept, found = [], []
    for _ in range(3):
        kept.append(Training(kind))
        found += names_of(core, kept[-1])
        begin_anew()
    assert found[0] == found[1] == found[2]


@kinds
def test_names_do_not_tell_how_long_ago_a_rank_joined(kind, core) -> None:
    """One rank has used its wrapper in two sessions, another one has joined in the second."""

    def used(sessions: int) -> list[set[str]]:
        old = Training(kind)
        for _ in range(sessions):
            old.step()
            begin_anew()
        new = Training(kind)
        found = names_of(core, new, old)
        begin_anew()
        return found

    assert used(sessions=2) == used(sessions=1)


@kinds
def test_names_that_are_taken_do_not_depend_on_the_order_of_use(kind, core) -> None:
    def used(turned: bool) -> list[set[str]]:
        old = [Training(kind) for _ in range(2)]
        for training in old:
            training.step()
        begin_anew()
        new = [Training(kind) for _ in range(2)]
        for training in new:
            training.step()
        order = old[::-1] if turned else old
        found = names_of(core, *order)
        begin_anew()
        return found[::-1] if turned else found

    assert used(turned=False) == used(turned=True)


def test_a_copied_layer_has_a_name_of_its_own(core) -> None:
    training = Training("normalization")
    (before,) = names_of(core, training)
    saved = io.BytesIO()
    torch.save(training.model, saved)
    assert b"byteps.common" not in saved.getvalue()
    saved.seek(0)
    for copied in (copy.deepcopy(training.model), torch.load(saved, weights_only=False)):
        names(core)
        copied(torch.ones(3, 2))
        assert not names(core) & before
    begin_anew()
    saved.seek(0)
    torch.load(saved, weights_only=False)(torch.ones(3, 2))
    assert names(core) <= before  # the first of its session, as it would be if it were new


def copies_of(model: torch.nn.Module) -> list[torch.nn.Module]:
    saved = io.BytesIO()
    torch.save(model, saved)
    saved.seek(0)
    return [copy.deepcopy(model), torch.load(saved, weights_only=False)]


@pytest.mark.parametrize("layer", [torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)])
def test_a_copied_model_exchanges_its_own_gradients(layer, core) -> None:
    model = DistributedDataParallel(layer, compression=bps.Compression.fp16)
    before = None
    for used in (model, *copies_of(model)):
        names(core)
        with used.no_sync():
            used(torch.ones(3, 2)).sum().backward()
        assert core.started == []
        used(torch.ones(3, 2)).sum().backward()
        assert {item.dtype.name for item in core.started if ".weight" in item.name} == {"FLOAT16"}
        found = names(core)
        assert len(found) == len(before or found)
        assert not found & (before or set())
        before = found
    with pytest.raises(TypeError, match=r"use copy\.deepcopy"):
        copy.copy(model)


def test_a_copy_that_is_only_looked_at_takes_no_name(core) -> None:
    model = Training("parallel").model
    looked_at, used = copies_of(model)
    with torch.no_grad():
        looked_at(torch.ones(1, 2))
    used(torch.ones(1, 2)).sum().backward()
    assert "byteps.Gradient.model#2.weight" in names(core)


def test_a_copy_outlives_its_session(core) -> None:
    models = copies_of(Training("parallel").model)
    for model in models:
        model(torch.ones(1, 2)).sum().backward()
    bps.shutdown()
    models += copies_of(models[0])
    bps.init()
    names(core)
    for model in models:
        model(torch.ones(1, 2)).sum().backward()
    assert len([name for name in names(core) if name.endswith("weight")]) == 4
    bps.shutdown()
    for model in models:
        with pytest.raises(ValueError, match="not been initialized"):
            model(torch.ones(1, 2)).sum().backward()


def test_what_was_known_of_gradients_ends_with_the_session(core) -> None:
    """Ranks that are new in a session wait to be told how a gradient is stored, so all do."""
    training = Training("optimizer")
    training.step()
    begin_anew()
    training.optimizer.zero_grad()
    names(core)
    training.optimizer.step()
    assert names(core) == {"byteps.optimizer.used"}


@kinds
def test_wrappers_of_a_job_of_one_exchange_when_there_are_more(kind, core) -> None:
    begin_anew_with(core, size=1)
    training = Training(kind)
    names(core)
    training.step()
    assert names(core) == set(), "nobody is there"
    begin_anew_with(core, size=2)
    training.step()
    assert [name for name in names(core) if name.startswith("byteps.")]
