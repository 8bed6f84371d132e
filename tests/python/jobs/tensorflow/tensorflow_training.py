"""A worker: trains with byteps.tensorflow in many ways; each equals the same training alone.

All ranks have the same weights, so rank 0 alone compares.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import byteps.tensorflow as bps

STEPS = 4
ROWS = 4  # of each rank's batch


@dataclass
class Case:
    name: str
    is_compiled: bool = True
    options: dict[str, Any] = field(default_factory=dict)


CASES = (
    Case("compiled"),
    Case("eager", is_compiled=False),
    Case("predivided", options={"gradient_predivide_factor": 4.0}),
    Case("in groups", options={"groups": 2}),
    Case("dense", options={"sparse_as_dense": True}),
)
OPTIMIZERS = {
    "sgd": lambda: tf.compat.v1.train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda: tf.compat.v1.train.AdamOptimizer(0.01),
}


def make_weights(seed: int) -> list[Any]:
    dice = np.random.default_rng(seed)
    shapes = ((6, 16), (16,), (16, 16), (16,), (16, 1), (1,))
    table = [tf.Variable(dice.normal(size=(20, 6)))]
    return table + [tf.Variable(dice.normal(size=shape) / 4) for shape in shapes]


def loss_of(weights: list[Any], batch: Any, is_dense: bool = False) -> Any:
    table, *layers = weights
    values = (
        tf.one_hot(batch, 20, dtype=table.dtype) @ table if is_dense else tf.gather(table, batch)
    )
    for kernel, bias in zip(layers[::2], layers[1::2], strict=True):
        values = tf.tanh(values @ kernel + bias)
    return tf.reduce_mean(values**2)


def batches(count: int = STEPS) -> list[Any]:
    dice = np.random.default_rng(7)
    return [dice.integers(0, 20, size=ROWS * bps.size()) for _ in range(count)]


def train(
    weights: list[Any], pick: Callable[[Any], Any], wrap: Callable[[Any], Any], is_compiled: bool
) -> None:
    """Make some steps with momentum on the part of the batches that `pick` takes."""
    speeds = [tf.Variable(tf.zeros_like(weight)) for weight in weights]

    def step(batch: Any) -> None:
        with tf.GradientTape() as tape:
            loss = loss_of(weights, batch)
        gradients = wrap(tape).gradient(loss, weights)
        for weight, speed, gradient in zip(weights, speeds, gradients, strict=True):
            speed.assign(0.9 * speed + tf.convert_to_tensor(gradient))
            weight.assign_sub(0.1 * speed)

    step = tf.function(step) if is_compiled else step
    for batch in batches():
        step(tf.constant(pick(batch)))


def check_tape(case: Case, rank: int) -> None:
    mine, alone = make_weights(rank), make_weights(0)
    bps.broadcast_variables(mine, root_rank=0)

    def wrap(tape: Any) -> Any:
        return bps.DistributedGradientTape(tape, **case.options)

    train(mine, lambda batch: batch[rank * ROWS : (rank + 1) * ROWS], wrap, case.is_compiled)
    bps.check_replicas(mine, name=case.name)
    if rank == 0:
        train(alone, lambda batch: batch, lambda tape: tape, case.is_compiled)
        compare(case.name, [one.numpy() for one in mine], [one.numpy() for one in alone])


def train_in_session(optimizer: Any, seed: int, given: list[Any], hooks: list[Any]) -> list[Any]:
    with tf.Graph().as_default():
        weights = make_weights(seed)
        batch = tf.compat.v1.placeholder(tf.int64, [None])
        # With rows, momentum would leave out those that are not in the batch.
        loss = loss_of(weights, batch, is_dense=True)
        train_op = optimizer.minimize(loss, var_list=weights)
        with tf.compat.v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            for rows in given:
                session.run(train_op, {batch: rows})
            return session.run(weights)


def check_session(name: str, rank: int, passes: int) -> None:
    given = batches(STEPS * passes)
    mine = [rows[rank * ROWS : (rank + 1) * ROWS] for rows in given]
    with tf.Graph().as_default():
        optimizer = bps.DistributedOptimizer(
            OPTIMIZERS[name](),
            backward_passes_per_step=passes,
            average_aggregated_gradients=True,
        )
    found = train_in_session(optimizer, rank, mine, [bps.BroadcastGlobalVariablesHook(0)])
    bps.check_replicas([tf.constant(one) for one in found], name=name)
    if rank == 0:
        # The mean over the passes of a step is that over their batches together.
        steps = [np.concatenate(given[i : i + passes]) for i in range(0, len(given), passes)]
        alone = train_in_session(OPTIMIZERS[name](), 0, steps, [])
        compare(f"{name}, {passes} passes", found, alone)


def compare(name: str, mine: list[Any], alone: list[Any]) -> None:
    for one, other in zip(mine, alone, strict=True):
        difference = float(abs(one - other).max())
        assert difference < 1e-12, (name, difference)


def main() -> None:
    bps.init()
    for case in CASES:
        check_tape(case, bps.rank())
    for name in OPTIMIZERS:
        for passes in (1, 2):
            check_session(name, bps.rank(), passes)
    print(f"all right {bps.rank()}/{bps.size()}")
    bps.shutdown()


main()
