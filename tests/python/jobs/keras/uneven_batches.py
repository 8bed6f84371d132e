"""A worker: the first rank has a batch more than the others, in programs of frameworks; all ranks
hear of it. The argument says which programs: keras, tensorflow or jax."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras_alone  # noqa: F401
import numpy as np

from byteps.common.programs.program_errors import error_of
from byteps.common.session import default

ROWS = 8


def fit_with_keras(bps: Any, batches: int) -> None:
    """The others come to the end of the epoch, where the ranks average their metrics."""
    keras = importlib.import_module("keras")
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(bps.DistributedOptimizer(keras.optimizers.SGD(0.1)), loss="mse")
    x = np.ones((ROWS * batches, 4), np.float32)
    averages = [bps.callbacks.MetricAverageCallback()]
    model.fit(x, x[:, :1], ROWS, verbose=0, callbacks=averages)


def own_loop_of_tensorflow(bps: Any, batches: int) -> None:
    """The others come to another program."""
    tf = importlib.import_module("tensorflow")
    weights = tf.Variable(tf.ones([4, 1]))

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weights) ** 2)
        tape = bps.DistributedGradientTape(tape)
        weights.assign_sub(0.1 * tape.gradient(loss, [weights])[0])
        return loss

    losses = [step(tf.ones([ROWS, 4])) for _ in range(batches)]
    mean = tf.function(lambda loss: bps.allreduce(loss, name="mean loss"))
    mean(losses[-1])


def own_loop_of_jax(bps: Any, batches: int) -> None:
    """The others come to a call outside of programs."""
    jax = importlib.import_module("jax")

    @jax.jit
    def step(weights: Any, x: Any) -> Any:
        gradient = jax.grad(lambda w: ((x @ w) ** 2).mean())(weights)
        return weights - 0.1 * bps.allreduce(gradient, name="gradient")

    weights = jax.numpy.ones([4, 1])
    for _ in range(batches):
        weights = step(weights, jax.numpy.ones([ROWS, 4]))
    bps.allreduce(weights.sum(), name="sum of weights")


PROGRAMS: dict[str, Callable[[Any, int], None]] = {
    "keras": fit_with_keras,
    "tensorflow": own_loop_of_tensorflow,
    "jax": own_loop_of_jax,
}


def expect_out_of_step(program: Callable[[], None]) -> None:
    heard: BaseException | None = None
    try:
        program()
    except Exception as error:
        heard = error_of(error) or error
    kind = importlib.import_module("byteps.common.errors").OutOfStepError
    assert isinstance(heard, kind), repr(heard)
    assert "ranks wait for each other" in str(heard), heard


def main() -> None:
    for name in sys.argv[1:]:
        bps = importlib.import_module(f"byteps.{name}")
        bps.init()
        batches = 3 if bps.rank() == 0 else 2
        expect_out_of_step(lambda bps=bps, name=name, n=batches: PROGRAMS[name](bps, n))
        bps.barrier(name="all have heard")  # who leaves before is a lost peer to the others
        place = f"{default.rank()}/{default.size()}"
        bps.shutdown()
    print(f"all right {place}")


if __name__ == "__main__":
    main()
