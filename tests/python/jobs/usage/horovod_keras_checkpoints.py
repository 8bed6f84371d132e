"""A program in the style of Horovod's documentation for Keras: it goes on from the checkpoint that
rank 0 has, with another number of epochs; the import is changed."""

import tempfile
from pathlib import Path

import keras
import numpy as np

import byteps.keras as hvd

hvd.init()
folder = Path(tempfile.mkdtemp()) if hvd.rank() == 0 else None
folder = hvd.broadcast_object(folder, root_rank=0)
checkpoint = str(folder / "checkpoint-{epoch}.keras")

dice = np.random.default_rng(3)
inputs = dice.normal(size=(68, 5)).astype("float32")
labels = inputs.sum(axis=1, keepdims=True)
mine = slice(hvd.rank(), None, hvd.size())


def train(epochs):
    found = [
        epoch for epoch in range(epochs, 0, -1) if Path(checkpoint.format(epoch=epoch)).exists()
    ]
    # Rank 0 says where to go on: the others may not see its files.
    begin = int(hvd.broadcast(found[0] if found else 0, root_rank=0, name="begin"))
    if begin > 0 and hvd.rank() == 0:
        model = hvd.load_model(checkpoint.format(epoch=begin))
    else:
        keras.utils.set_random_seed(hvd.rank())
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3), keras.layers.Dense(1)])
        optimizer = keras.optimizers.SGD(0.01 * hvd.size(), momentum=0.9)
        model.compile(hvd.DistributedOptimizer(optimizer), loss="mse", metrics=["mae"])
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(0.01 * hvd.size(), warmup_epochs=2),
        hvd.callbacks.LearningRateScheduleCallback(0.01 * hvd.size(), 0.1, start_epoch=3),
    ]
    if hvd.rank() == 0:
        callbacks.append(keras.callbacks.ModelCheckpoint(checkpoint))
    history = model.fit(
        inputs[mine],
        labels[mine],
        batch_size=8,
        epochs=epochs,
        initial_epoch=begin,
        verbose=0,
        callbacks=callbacks,
    ).history
    return model, begin, history


model, begin, history = train(2)
assert begin == 0
first = history["loss"]
hvd.barrier()
keras.backend.clear_session()
model, begin, history = train(4)
assert begin == 2
assert history["loss"][-1] < first[0], (first, history)
everybody = hvd.allgather_object([history, [w.tobytes() for w in model.get_weights()]])
assert all(other == everybody[0] for other in everybody)
loss, error = model.evaluate(inputs[mine], labels[mine], verbose=0)
mean = hvd.allreduce(np.array([loss, error]), name="test")
assert mean.shape == (2,)
print("all right")
