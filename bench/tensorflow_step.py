"""What a step of a tf.function costs with byteps, and whether the exchange overlaps with compute.

    PYTHON bench/tensorflow_step.py [--repeats 20]

PYTHON is one with TensorFlow, such as that of .venv-tensorflow-new after `./dev lane frameworks`.

- **Cost.** One worker, no server: a step of SGD on a network, plain, and with an exchange of every
  gradient, to which nobody else contributes. The difference is what byteps costs.
- **Overlap.** Two workers, run with `bps run -np 2`: rank 1 is late with the gradient of the last
  layer, which backward has first. A step with exchanges is compared with a step without them, and
  with an exchange for which rank 1 is late.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
from step_times import LATE_S, print_cost, print_overlap

import byteps.tensorflow as bps

WIDTH = 256
LAYERS = 16
ROWS = 64
ROWS_OF_OVERLAP = 2048  # so that backward takes about as long as the other rank is late


def make_step(weights: list[tf.Variable], exchange: Callable[[list], list]) -> Callable[[], None]:
    batch = tf.random.normal([ROWS if bps.size() == 1 else ROWS_OF_OVERLAP, WIDTH])

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            values = batch
            for weight in weights:
                values = tf.tanh(values @ weight)
            loss = tf.reduce_mean(values**2)
        gradients = exchange(tape.gradient(loss, weights))
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.assign_sub(0.01 * gradient)

    return step


def pushed(gradients: list) -> list:
    return [
        bps.push_pull(gradient, name=f"gradient {i}", priority=-i)
        for i, gradient in enumerate(gradients)
    ]


def measure_overlap(weights: list[tf.Variable], repeats: int) -> None:
    def wait() -> None:
        time.sleep(LATE_S if bps.rank() else 0.0)  # rank 1 has rank 0 wait
        bps.push_pull(tf.ones([1]), name="alone")

    def is_late(gradients: list) -> list:
        if bps.rank() == 1:
            sleep = tf.numpy_function(
                lambda g: (time.sleep(LATE_S), g)[1], [gradients[-1]], tf.float32
            )
            sleep.set_shape(gradients[-1].shape)
            gradients = [*gradients[:-1], sleep]
        return pushed(gradients)

    compute, both = (make_step(weights, one) for one in (lambda gradients: gradients, is_late))
    print_overlap(compute, wait, both, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()
    bps.init()
    layers = LAYERS if bps.size() == 1 else 2 * LAYERS
    weights = [tf.Variable(tf.random.normal([WIDTH, WIDTH]) / WIDTH**0.5) for _ in range(layers)]
    if bps.size() == 1:
        plain = make_step(weights, lambda gradients: gradients)
        print_cost(plain, make_step(weights, pushed), len(weights), arguments.repeats)
    else:
        measure_overlap(weights, arguments.repeats)
    bps.shutdown()


main()
