"""What a step of Keras 3 costs with byteps, on the backend that KERAS_BACKEND names.

    KERAS_BACKEND=jax PYTHON bench/keras_step.py [--repeats 20]

PYTHON is one with Keras, such as that of .venv-tensorflow-new after `./dev lane frameworks`.

One worker, no server: `train_on_batch` with an optimizer of Keras, with a DistributedOptimizer,
which exchanges nothing in a job of one, and with one that exchanges every gradient all the same, to
which nobody else contributes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from step_times import print_cost

import byteps.keras as bps
from byteps.keras_common.settings import OptimizerPart

WIDTH = 256
LAYERS = 16
ROWS = 64


class Exchanges(OptimizerPart):
    """Goes on as if there were other ranks."""

    is_active = True


def make_step(wrap: Callable[[Any], Any]) -> Callable[[], object]:
    keras.utils.set_random_seed(0)
    dense = [keras.layers.Dense(WIDTH, "tanh", use_bias=False) for _ in range(LAYERS)]
    model = keras.Sequential([keras.Input((WIDTH,)), *dense])
    model.compile(wrap(keras.optimizers.SGD(0.01)), loss="mse")
    batch = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype("float32")
    return lambda: model.train_on_batch(batch, batch)


def exchanging(optimizer: Any) -> Any:
    distributed = bps.DistributedOptimizer(optimizer)
    distributed.byteps_part.__class__ = Exchanges
    return distributed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
    bps.init()
    plain = make_step(lambda optimizer: optimizer)
    for text, wrap in (("in a job of one", bps.DistributedOptimizer), ("exchanging", exchanging)):
        print(f"{keras.backend.backend()}, {text}:")
        print_cost(plain, make_step(wrap), LAYERS, repeats)
    bps.shutdown()


main()
