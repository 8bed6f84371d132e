"""A worker: a first script for Horovod and Keras, in the form that its users know.

Only the import differs.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import keras
import numpy as np

import byteps.keras as hvd

hvd.init()
dice = np.random.default_rng(hvd.rank())
x_train = dice.random((256, 8, 8, 1), np.float32)
y_train = keras.utils.to_categorical((x_train.mean((1, 2, 3)) > 0.5).astype(int), 2)

model = keras.Sequential(
    [
        keras.Input((8, 8, 1)),
        keras.layers.Conv2D(4, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.25),
        keras.layers.Dense(2, activation="softmax"),
    ]
)

# The learning rate grows with the number of workers.
opt = keras.optimizers.Adadelta(1.0 * hvd.size())
opt = hvd.DistributedOptimizer(opt)
model.compile(loss="categorical_crossentropy", optimizer=opt, metrics=["accuracy"])

folder = tempfile.mkdtemp()
callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
# Only worker 0 saves checkpoints: the others would damage them.
if hvd.rank() == 0:
    callbacks.append(keras.callbacks.ModelCheckpoint(folder + "/checkpoint-{epoch}.keras"))

model.fit(
    x_train,
    y_train,
    batch_size=32,
    callbacks=callbacks,
    epochs=2,
    verbose=1 if hvd.rank() == 0 else 0,
)
score = model.evaluate(x_train, y_train, verbose=0)

assert len(list(Path(folder).iterdir())) == (2 if hvd.rank() == 0 else 0)
everybody = hvd.allgather_object([w.tobytes() for w in model.get_weights()])
assert everybody[0] == everybody[1]
print(f"all right {score[0] > 0}")
