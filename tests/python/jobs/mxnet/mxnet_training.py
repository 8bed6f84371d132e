"""A worker: trains with byteps.mxnet in many ways; each equals the same training alone."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import old_numpy  # noqa: F401

import mxnet as mx  # isort: skip
from mxnet import autograd, gluon, nd

import byteps.mxnet as bps

STEPS = 4
ROWS = 4  # of each rank's batch


@dataclass
class Case:
    name: str
    optimizer: str = "sgd"
    settings: dict[str, Any] = field(default_factory=lambda: {"learning_rate": 0.1})
    is_hybrid: bool = False
    is_deferred: bool = False
    is_trainer: bool = True  # or an optimizer in a loop of its own
    is_clipped: bool = False
    options: dict[str, Any] = field(default_factory=dict)


MOMENTUM = {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01}
CASES = (
    Case("sgd"),
    Case("momentum, hybrid", settings=MOMENTUM, is_hybrid=True),
    Case("adam", "adam", {"learning_rate": 0.01}, is_deferred=True),
    Case("hybrid and deferred", "adam", {"learning_rate": 0.01}, True, True),
    Case("clipped", settings=MOMENTUM, is_clipped=True),
    Case("predivided", options={"gradient_predivide_factor": 4.0}),
    Case("groups", settings=MOMENTUM, is_hybrid=True, options={"num_groups": 2}),
    Case("optimizer", settings=MOMENTUM, is_trainer=False),
    Case("optimizer, one by one", "nag", MOMENTUM, is_trainer=False),
    Case("optimizer, groups", settings=MOMENTUM, is_trainer=False, options={"num_groups": 2}),
)


def make_net(case: Case, seed: int) -> Any:
    """Return a network with weights that the seed alone decides, which are not there yet if their
    initialisation is deferred."""
    mx.random.seed(seed)
    net = gluon.nn.HybridSequential(prefix="net_")
    sizes = (6, 16, 16)
    with net.name_scope():
        for size in sizes:
            inputs = 0 if case.is_deferred else size
            net.add(gluon.nn.Dense(16, "tanh", dtype="float64", in_units=inputs))
        net.add(gluon.nn.Dense(1, dtype="float64", in_units=0 if case.is_deferred else 16))
    net.cast("float64")
    net.initialize(mx.init.Xavier())
    if case.is_hybrid:
        net.hybridize(static_alloc=True)
    return net


class Alone:
    """A plain trainer, or a plain updater."""

    def __init__(self, case: Case, params: Any, optimizer: Any = None) -> None:
        optimizer = optimizer or mx.optimizer.create(case.optimizer, **case.settings)
        self._params = [params[key] for key in sorted(params.keys())]
        self._updater = mx.optimizer.get_updater(optimizer)
        self._optimizer = optimizer

    def step(self, batch: int) -> None:
        self._optimizer.rescale_grad = 1 / batch
        gradients = [p.grad() for p in self._params]
        weights = [p.data() for p in self._params]
        places = list(range(len(weights)))
        if self._optimizer.aggregate_num:
            self._updater(places, gradients, weights)
            return
        for place, gradient, weight in zip(places, gradients, weights, strict=True):
            self._updater(place, gradient, weight)


def clip(params: Any) -> None:
    gradients = [params[key].grad() for key in sorted(params.keys())]
    norm = sum(float((one**2).sum().asscalar()) for one in gradients) ** 0.5
    for one in gradients:
        one *= min(1.0, 0.1 / norm)


def train(case: Case, net: Any, trainer: Any, mine: slice, parts: int) -> list[np.ndarray]:
    """Return the weights after some steps on a part of each batch, or on all `parts` of it."""
    dice = np.random.default_rng(7)
    params = net.collect_params()
    for _ in range(STEPS):
        rows = nd.array(dice.normal(size=(ROWS * bps.size(), 6))[mine], dtype="float64")
        with autograd.record():
            # MXNet's optimizers have 1 / batch size as float32, so it should be exact.
            loss = (net(rows) ** 2).sum() / parts
        loss.backward()
        if case.is_clipped:
            trainer.allreduce_grads()
            clip(params)
            trainer.update(ROWS)
        else:
            trainer.step(ROWS)
    return [params[key].data().asnumpy() for key in sorted(params.keys())]


def check(case: Case, rank: int, size: int) -> None:
    net = make_net(case, rank)
    params = net.collect_params()
    bps.broadcast_parameters(params, root_rank=0)
    if case.is_trainer:
        trainer = bps.DistributedTrainer(
            params, case.optimizer, dict(case.settings), **case.options
        )
    else:
        optimizer = mx.optimizer.create(case.optimizer, **case.settings)
        trainer = Alone(case, params, bps.DistributedOptimizer(optimizer, **case.options))
    ours = train(case, net, trainer, slice(rank * ROWS, rank * ROWS + ROWS), 1)
    bps.check_replicas(params, name=case.name)
    net = make_net(case, 0)
    alone = gluon.Trainer(net.collect_params(), case.optimizer, dict(case.settings), kvstore=None)
    expected = train(case, net, alone, slice(None), size)
    for one, other in zip(ours, expected, strict=True):
        difference = float(abs(one - other).max())
        assert difference < 1e-12, (case.name, difference)


def check_what_gradients_hold(rank: int, size: int) -> None:
    """After `step` they are averages, divided by the batch size."""
    dense = gluon.nn.Dense(1, use_bias=False, in_units=3)
    dense.initialize(mx.init.One())
    trainer = bps.DistributedTrainer(
        dense.collect_params(), "sgd", {"learning_rate": 0.5}, size - 1
    )
    with autograd.record():
        loss = dense(nd.full((2, 3), rank)).sum()
    loss.backward()
    trainer.step(2)
    mean = (size - 1) / 2
    assert (dense.weight.grad().asnumpy() == mean).all()
    assert (dense.weight.data().asnumpy() == 1 - 0.5 * mean).all()


def check_first_step_starts_alike(rank: int, size: int) -> None:
    dense = gluon.nn.Dense(2, use_bias=False, in_units=3)
    dense.initialize(mx.init.Constant(rank))
    trainer = bps.DistributedTrainer(
        dense.collect_params(), "sgd", {"learning_rate": 0.0}, root_rank=size - 1
    )
    with autograd.record():
        loss = dense(nd.ones((1, 3))).sum()
    loss.backward()
    trainer.step(1)
    assert (dense.weight.data().asnumpy() == size - 1).all()


def check_stale_gradients(rank: int, size: int) -> None:
    """A rank that has not used a layer counts as zero; nobody's weights drift apart."""
    layers = [gluon.nn.Dense(1, use_bias=False, in_units=2) for _ in range(3)]
    params = gluon.ParameterDict()
    for layer in layers:
        layer.initialize(mx.init.One())
        params.update(layer.collect_params())
    trainer = bps.DistributedTrainer(params, "sgd", {"learning_rate": 1.0})
    for step in range(2):
        with autograd.record():  # rank 0 uses layer 0, the others layer 1, nobody layer 2
            loss = layers[0 if rank == 0 else 1](nd.ones((1, 2))).sum()
        loss.backward()
        trainer.step(1, ignore_stale_grad=True)
        expected = [1 - (step + 1) / size, 1 - (step + 1) * (size - 1) / size, 1]
        found = [layer.weight.data().asnumpy() for layer in layers]
        for one, value in zip(found, expected, strict=True):
            assert np.allclose(one, value), (found, expected)
    bps.check_replicas({p.name[-12:]: p for p in params.values()})


def check_compression(rank: int, size: int) -> None:
    dense = gluon.nn.Dense(1, use_bias=False, in_units=3)
    dense.initialize(mx.init.One())
    options = {"compression_params": {"fp16": True}}
    trainer = bps.DistributedTrainer(dense.collect_params(), "sgd", {"learning_rate": 1}, **options)
    with autograd.record():
        loss = dense(nd.full((1, 3), rank)).sum()
    loss.backward()
    trainer.step(1)
    assert dense.weight.grad().dtype == np.float32
    assert np.allclose(dense.weight.data().asnumpy(), 1 - (size - 1) / 2)


def check_optimizer_is_the_users(rank: int, size: int) -> None:
    plain = mx.optimizer.create("sgd", learning_rate=0.1)
    optimizer = bps.DistributedOptimizer(plain)
    assert isinstance(optimizer, mx.optimizer.SGD)
    assert type(optimizer).__name__ == "SGD"
    optimizer.set_learning_rate(0.2)
    plain.rescale_grad = 0.5
    assert plain.learning_rate == 0.2
    assert optimizer.rescale_grad == 0.5
    assert type(pickle.loads(pickle.dumps(optimizer))) is mx.optimizer.SGD
    dense = gluon.nn.Dense(1, in_units=1)
    dense.initialize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer = bps.DistributedTrainer(dense.collect_params(), optimizer)
    assert any("DistributedOptimizer" in str(one.message) for one in caught)
    assert trainer.optimizer.__dict__ is plain.__dict__


def check_trainer_of_a_set(rank: int, size: int) -> None:
    """Only the ranks of the set average; others step alone."""
    some = bps.add_process_set(list(range(size - 1)) if size > 2 else [0])
    dense = gluon.nn.Dense(1, use_bias=False, in_units=3)
    dense.initialize(mx.init.Constant(rank))
    trainer = bps.DistributedTrainer(
        dense.collect_params(), "sgd", {"learning_rate": 1.0}, process_set=some
    )
    with autograd.record():
        loss = dense(nd.full((1, 3), rank)).sum()
    loss.backward()
    trainer.step(1)
    others = some.size() > 1 and some.included()
    expected = -(some.size() - 1) / 2 if others else rank - rank
    assert (dense.weight.data().asnumpy() == expected).all(), dense.weight.data()
    bps.remove_process_set(some)


def check_module(rank: int, size: int) -> None:
    """The symbolic interface."""
    data = mx.sym.Variable("data")
    net = mx.sym.FullyConnected(data, num_hidden=2, name="fc")
    net = mx.sym.SoftmaxOutput(net, name="softmax")
    dice = np.random.default_rng(rank)
    batches = mx.io.NDArrayIter(dice.normal(size=(16, 3)), np.arange(16) % 2, batch_size=4)
    module = mx.mod.Module(net)
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params(mx.init.Xavier())
    weights, states = module.get_params()
    bps.broadcast_parameters(weights)
    bps.broadcast_parameters(states)
    module.set_params(weights, states)
    optimizer = mx.optimizer.create("sgd", learning_rate=0.1, rescale_grad=1 / 4)
    module.fit(batches, optimizer=bps.DistributedOptimizer(optimizer), kvstore=None, num_epoch=2)
    bps.check_replicas(module.get_params()[0])


def main() -> None:
    bps.init()
    rank, size = bps.rank(), bps.size()
    for case in CASES:
        check(case, rank, size)
    for name, check_more in sorted(globals().items()):
        if name.startswith("check_"):
            check_more(rank, size)
    print(f"all right {rank}/{size}")
    bps.shutdown()


main()
