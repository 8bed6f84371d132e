"""Trains a small network on scikit-learn's handwritten digits, with Keras 3.

Run it: KERAS_BACKEND=jax bps run -np 2 --servers 2 python examples/keras_digits.py
KERAS_BACKEND may also be torch or tensorflow. Alone, without byteps: python
examples/keras_digits.py --alone. Both see the same batches, so both learn the same, whatever the
number of workers.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from digits import BATCH, TRAINED_ON, arguments_of, load_data

import byteps.keras as bps


def make_model(seed: int) -> Any:
    """Return a network of dense layers."""
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def train(alone: bool, epochs: int, dtype: str) -> Any:
    """Train, and report loss and accuracy after each epoch."""
    rank, size = (0, 1) if alone else (bps.rank(), bps.size())
    images, labels = load_data(dtype)
    model = make_model(rank)  # different weights, until rank 0's are broadcast
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    callbacks: list[Any] = []
    if not alone:
        bps.broadcast_variables(model.weights, root_rank=0)
        optimizer = bps.DistributedOptimizer(optimizer)
        callbacks = [bps.callbacks.MetricAverageCallback()]
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss=loss, metrics=["accuracy"])
    # This rank's part of each batch, one after the other.
    mine = np.arange(TRAINED_ON).reshape(-1, size, BATCH // size)[:, rank].reshape(-1)
    model.fit(
        images[mine],
        labels[mine],
        batch_size=BATCH // size,
        epochs=epochs,
        shuffle=False,
        callbacks=callbacks,
        validation_data=(images[TRAINED_ON:], labels[TRAINED_ON:]),
        verbose=2 if rank == 0 else 0,
    )
    return model


def main() -> None:
    """Train as the arguments say."""
    arguments = arguments_of(__doc__)
    keras.config.set_floatx(arguments.dtype)
    if arguments.dtype == "float64" and keras.backend.backend() == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
    if not arguments.alone:
        bps.init()
        if BATCH % bps.size():
            raise SystemExit(f"the number of workers must divide {BATCH}")
    model = train(arguments.alone, arguments.epochs, arguments.dtype)
    if arguments.weights and (arguments.alone or bps.rank() == 0):
        np.savez(arguments.weights, *model.get_weights())
    if not arguments.alone:
        bps.shutdown()


if __name__ == "__main__":
    main()
