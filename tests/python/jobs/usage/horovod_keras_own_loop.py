"""A worker: a script for Horovod and Keras with `train_on_batch` and values of its own; only the
import differs."""

from __future__ import annotations

import keras
import numpy as np

import byteps.keras as hvd

hvd.init()
keras.utils.set_random_seed(hvd.rank())
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4), keras.layers.Dense(1)])
opt = hvd.DistributedOptimizer(keras.optimizers.Adam(0.01 * hvd.size()), backward_passes_per_step=2)
model.compile(loss="mse", optimizer=opt)

dice = np.random.default_rng(hvd.rank())
losses = []
weights = [np.asarray(hvd.broadcast(w, root_rank=0, name=f"w{i}"))
           for i, w in enumerate(model.get_weights())]  # fmt: skip
model.set_weights(weights)
for _ in range(60):
    x = dice.normal(size=(16, 6)).astype("float32")
    losses.append(float(model.train_on_batch(x, x[:, :1])))
mean = float(hvd.allreduce(np.mean(losses[-10:]), name="loss"))
first = float(hvd.allreduce(np.mean(losses[:10]), name="loss"))
assert mean < first, (mean, first)

predictions = hvd.allgather(model.predict(np.ones((2 + hvd.rank(), 6)), verbose=0), name="all")
assert len(predictions) == sum(2 + rank for rank in range(hvd.size()))
assert (predictions == predictions[0]).all()
print(f"all right {mean < first}")
