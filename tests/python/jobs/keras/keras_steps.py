"""A worker: many steps of `fit`, during which somebody may kill a server."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

import byteps.keras as bps

STEPS = 300


class Tells(keras.callbacks.Callback):
    """Says when training has begun."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == 20:
            print("stepping", flush=True)


@keras.saving.register_keras_serializable("tests")
class Adds(keras.layers.Layer):
    """Its loss has gradients that are exact numbers."""

    def build(self, shape: Any) -> None:
        self.parts = [self.add_weight((1000 * n,), "zeros", name=f"part{n}") for n in range(1, 6)]

    def call(self, inputs: Any) -> Any:
        total = sum(keras.ops.sum(part) for part in self.parts)
        return inputs * total


def main() -> None:
    bps.init()
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((1,)), Adds()])
    optimizer = bps.DistributedOptimizer(keras.optimizers.SGD(1.0), op=bps.Sum)
    # The derivative of the loss by each weight is the input: the rank's number plus one.
    model.compile(optimizer, loss=lambda wanted, got: keras.ops.mean(got))
    inputs = np.full((STEPS, 1), bps.rank() + 1, np.float32)
    model.fit(inputs, inputs, batch_size=1, shuffle=False, verbose=0, callbacks=[Tells()])
    ranks = bps.size() * (bps.size() + 1) // 2
    for weights in model.get_weights():
        assert (weights == -STEPS * ranks).all(), weights
    print(f"all right {bps.rank()}/{bps.size()}")
    bps.shutdown()


main()
