"""What a step of a tf.function costs with byteps, and whether the exchange overlaps with compute.

    PYTHON bench/tensorflow_step.py [--repeats 20]

PYTHON is one with TensorFlow, such as that of .venv-tensorflow-new after `./dev lane frameworks`.

- **Cost.** One worker, no server: a step of SGD on a network, plain, and with an exchange of every
  gradient, to which nobody else contributes. The difference is what byteps costs.
- **Overlap.** Two workers, run with `bps run -np 2`: rank 1 is late with the gradient of the last
  layer, which backward has first. The step is compared with the step without lateness, and with the
  lateness alone.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

import byteps.tensorflow as bps

WIDTH = 256
LAYERS = 16
ROWS = 64
ROWS_OF_OVERLAP = 2048  # so that backward takes about as long as the other rank is late
LATE_S = 0.4


def median_ms(step: Callable[[], object], repeats: int) -> float:
    """Return the time of a step, without the first ones."""
    seconds = []
    for number in range(repeats + 2):
        begin = time.perf_counter()
        step()
        if number > 1:
            seconds.append(time.perf_counter() - begin)
    return sorted(seconds)[len(seconds) // 2] * 1000


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


def measure_cost(weights: list[tf.Variable], repeats: int) -> None:
    plain = make_step(weights, lambda gradients: gradients)
    exchanging = make_step(weights, pushed)
    rounds = [(median_ms(plain, repeats), median_ms(exchanging, repeats)) for _ in range(3)]
    for one, other in rounds:
        each = (other - one) * 1000 / len(weights)
        print(f"plain {one:.1f} ms, with exchanges {other:.1f} ms: {each:.0f} us for each gradient")


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

    steps = (make_step(weights, pushed), wait, make_step(weights, is_late))
    for _ in range(3):
        times = []
        for step in steps:
            bps.barrier()
            times.append(median_ms(step, repeats))
        if bps.rank() == 0:
            one, two, both = times
            print(f"step {one:.0f} ms, lateness {two:.0f} ms, a step with lateness {both:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()
    bps.init()
    layers = LAYERS if bps.size() == 1 else 2 * LAYERS
    weights = [tf.Variable(tf.random.normal([WIDTH, WIDTH]) / WIDTH**0.5) for _ in range(layers)]
    if bps.size() == 1:
        measure_cost(weights, arguments.repeats)
    else:
        measure_overlap(weights, arguments.repeats)
    bps.shutdown()


main()
