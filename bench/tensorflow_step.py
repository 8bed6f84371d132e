"""What a step of a tf.function costs with byteps, and whether the exchange overlaps with compute.

    PYTHON bench/tensorflow_step.py [--repeats 20]

PYTHON is one with TensorFlow, such as that of .venv-tensorflow-new after `./dev lane frameworks`.

- **Cost.** One worker, no server: a step of SGD on a network, plain, and with an exchange of every
  gradient, to which nobody else contributes. The difference is what byteps costs.
- **Overlap.** Two workers, run with `bps run -np 2`: rank 1 is late with the gradient of the last
  layer, which backward has first. The step is compared with backward alone and the wait alone.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

import byteps.tensorflow as bps

WIDTH = 512
LAYERS = 16
ROWS = 64
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
    batch = tf.random.normal([ROWS, WIDTH])

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
    backward = make_step(weights, lambda gradients: gradients)

    def wait() -> None:
        time.sleep(LATE_S if bps.rank() else 0.0)  # rank 1 has another rank wait
        bps.push_pull(tf.ones([1]), name="alone")

    # What only rank 1 waits for is not on the way of rank 0's backward.
    late = tf.numpy_function

    def exchange(gradients: list) -> list:
        if bps.rank() == 1:
            last = late(lambda g: (time.sleep(LATE_S), g)[1], [gradients[-1]], tf.float32)
            last.set_shape(gradients[-1].shape)
            gradients = [*gradients[:-1], last]
        return pushed(gradients)

    both = make_step(weights, exchange)
    for _ in range(3):
        bps.barrier()
        one = median_ms(backward, repeats)
        bps.barrier()
        two = median_ms(wait, repeats)
        bps.barrier()
        three = median_ms(both, repeats)
        if bps.rank() == 0:
            print(f"backward {one:.0f} ms, wait {two:.0f} ms, both in one step {three:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()
    bps.init()
    layers = LAYERS if bps.size() == 1 else 3 * LAYERS
    weights = [tf.Variable(tf.random.normal([WIDTH, WIDTH]) / WIDTH**0.5) for _ in range(layers)]
    if bps.size() == 1:
        measure_cost(weights, arguments.repeats)
    else:
        measure_overlap(weights, arguments.repeats)
    bps.shutdown()


main()
