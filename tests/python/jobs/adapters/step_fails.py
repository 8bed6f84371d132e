"""A worker: rank 1 raises an exception in the middle of training, while the others wait for its
gradients in a compiled step. The argument names the framework."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

STEPS = 20


def numbers(rank: int) -> Iterator[float]:
    """Yield a number for each step. Those of rank 1 end with an exception."""
    for step in range(STEPS):
        if rank == 1 and step == 5:
            raise LookupError("the data of rank 1 ends here")
        yield float(step)


def train_jax() -> None:
    import jax

    import byteps.jax as bps

    bps.init()

    @jax.jit
    def step(weights: Any, number: Any) -> Any:
        gradients = {key: weight * number for key, weight in weights.items()}
        return bps.push_pull(gradients, name="gradients")

    weights = {"a": jax.numpy.ones(300), "b": jax.numpy.ones((20, 20))}
    for number in numbers(bps.rank()):
        weights = step(weights, number)
    jax.block_until_ready(weights)


def train_tensorflow() -> None:
    import tensorflow as tf

    import byteps.tensorflow as bps

    bps.init()
    weights = [tf.Variable(tf.ones(300)), tf.Variable(tf.ones([20, 20]))]

    @tf.function
    def step(number: Any) -> None:
        with tf.GradientTape() as tape:
            loss = sum(tf.reduce_sum(weight * number) for weight in weights)
        gradients = bps.DistributedGradientTape(tape).gradient(loss, weights)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.assign_sub(gradient)

    for number in numbers(bps.rank()):
        step(tf.constant(number))


def train_keras() -> None:
    import keras
    import numpy as np

    import byteps.keras as bps

    bps.init()
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(8), keras.layers.Dense(1)])
    model.compile(bps.DistributedOptimizer(keras.optimizers.SGD(0.01)), loss="mse")

    def batches() -> Iterator[Any]:
        for number in numbers(bps.rank()):
            yield np.full((4, 1), number, np.float32), np.ones((4, 1), np.float32)

    model.fit(batches(), steps_per_epoch=STEPS, verbose=0)


def train_mxnet() -> None:
    sys.path.append(str(Path(__file__).resolve().parents[1] / "mxnet"))
    import old_numpy  # noqa: F401

    import mxnet as mx  # isort: skip
    import byteps.mxnet as bps

    bps.init()
    net = mx.gluon.nn.Dense(8, in_units=4)
    net.initialize()
    net.hybridize()
    trainer = bps.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for number in numbers(bps.rank()):
        with mx.autograd.record():
            loss = net(mx.nd.full((2, 4), number)).sum()
        loss.backward()
        trainer.step(2)
        loss.wait_to_read()
    mx.nd.waitall()


TRAIN: dict[str, Callable[[], None]] = {
    "jax": train_jax,
    "keras": train_keras,
    "mxnet": train_mxnet,
    "tensorflow": train_tensorflow,
}

if __name__ == "__main__":
    TRAIN[sys.argv[1]]()
    print("all steps")
