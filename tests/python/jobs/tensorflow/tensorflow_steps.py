"""A worker: many steps of one tf.function, during which somebody may kill a server."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import byteps.tensorflow as bps

STEPS = 300


def main() -> None:
    bps.init()
    weights = [tf.Variable(tf.zeros([1000 * n])) for n in range(1, 6)]

    @tf.function
    def step(number: tf.Tensor) -> None:
        """Add the ranks' parts. All numbers are exact."""
        part = number * tf.cast(bps.rank() + 1, tf.float32)
        gradients = [
            bps.push_pull(tf.ones_like(w) * part, op=bps.Sum, name=f"gradient {i}")
            for i, w in enumerate(weights)
        ]
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.assign_add(gradient)

    for number in range(STEPS):
        step(tf.constant(float(number)))
        if number == 20:
            print("stepping", flush=True)
    ranks = bps.size() * (bps.size() + 1) // 2
    assert all((np.asarray(w) == STEPS * (STEPS - 1) // 2 * ranks).all() for w in weights)
    print(f"all right {bps.rank()}/{bps.size()}")
    bps.shutdown()


main()
