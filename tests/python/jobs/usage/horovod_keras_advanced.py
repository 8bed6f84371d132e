"""A worker: a script for Horovod and Keras with warm-up, schedules and a restart; only the import
differs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import keras
import numpy as np

import byteps.keras as hvd

hvd.init()
# Worker 0 says where the checkpoints are, and where to go on.
folder = hvd.broadcast_object(tempfile.mkdtemp() if hvd.rank() == 0 else None, root_rank=0)
checkpoint = folder + "/checkpoint-{epoch}.keras"
dice = np.random.default_rng(hvd.rank())
x_train = dice.normal(size=(128, 10)).astype("float32")
y_train = (x_train.sum(1) > 0).astype("int64")
initial_lr = 0.0125 * hvd.size()


def new_model() -> keras.Model:
    model = keras.Sequential(
        [
            keras.Input((10,)),
            keras.layers.Dense(16, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(2),
        ]
    )
    opt = keras.optimizers.SGD(learning_rate=initial_lr, momentum=0.9)
    opt = hvd.DistributedOptimizer(opt, compression=hvd.Compression.fp16)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, optimizer=opt, metrics=["accuracy"])
    return model


def train(first: int, last: int) -> keras.Model:
    resume_from = 0
    for epoch in range(last, 0, -1):
        if Path(checkpoint.format(epoch=epoch)).exists():
            resume_from = epoch
            break
    resume_from = int(hvd.broadcast(resume_from, 0, name="resume_from_epoch"))
    assert resume_from == first
    if resume_from > 0 and hvd.rank() == 0:
        model = hvd.load_model(
            checkpoint.format(epoch=resume_from), compression=hvd.Compression.fp16
        )
    else:
        model = new_model()
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(initial_lr=initial_lr, warmup_epochs=2, verbose=1),
        hvd.callbacks.LearningRateScheduleCallback(
            initial_lr=initial_lr, multiplier=1.0, start_epoch=2, end_epoch=3
        ),
        hvd.callbacks.LearningRateScheduleCallback(
            initial_lr=initial_lr, multiplier=1e-1, start_epoch=3
        ),
    ]
    if hvd.rank() == 0:
        callbacks.append(keras.callbacks.ModelCheckpoint(checkpoint))
    history = model.fit(
        x_train,
        y_train,
        batch_size=16,
        callbacks=callbacks,
        epochs=last,
        initial_epoch=resume_from,
        verbose=0,
        validation_data=(x_train, y_train),
    ).history
    everybody = hvd.allgather_object(history["val_accuracy"])
    assert everybody[0] == everybody[1]
    return model


train(0, 3)
model = train(3, 4)
assert np.isclose(float(model.optimizer.learning_rate), initial_lr * 0.1)
trained = [w.tobytes() for w in model.trainable_weights and model.get_weights()[:2]]
everybody = hvd.allgather_object(trained)
assert everybody[0] == everybody[1]
score = hvd.allreduce(model.evaluate(x_train, y_train, verbose=0))
print(f"all right {score[1] >= 0}")
