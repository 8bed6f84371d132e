"""A program in the style of Horovod's documentation for the Keras of TensorFlow, with Keras 2; the
import is changed."""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
import tf_keras as keras

import byteps.tensorflow.keras as hvd

hvd.init()
dice = np.random.default_rng(0)
images = dice.uniform(size=(70, 12, 12, 1)).astype("float32")
labels = (images.mean(axis=(1, 2, 3)) > 0.5).astype("int64")
dataset = tf.data.Dataset.from_tensor_slices((images, labels))
dataset = dataset.shard(hvd.size(), hvd.rank()).repeat().shuffle(100, seed=1).batch(9)
model = keras.Sequential(
    [
        keras.layers.Conv2D(4, [3, 3], activation="relu", input_shape=(12, 12, 1)),
        keras.layers.MaxPooling2D(pool_size=(2, 2)),
        keras.layers.Dropout(0.25),
        keras.layers.Flatten(),
        keras.layers.Dense(3, activation="softmax"),
    ]
)
rate = 0.01 * hvd.size()
optimizer = keras.optimizers.legacy.Adam(rate)
optimizer = hvd.DistributedOptimizer(
    optimizer, backward_passes_per_step=1, average_aggregated_gradients=True
)
model.compile(
    loss=keras.losses.SparseCategoricalCrossentropy(),
    optimizer=optimizer,
    metrics=["accuracy"],
    experimental_run_tf_function=False,
)
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=rate, warmup_epochs=2, verbose=0),
]
folder = Path(tempfile.mkdtemp())
if hvd.rank() == 0:
    callbacks.append(keras.callbacks.ModelCheckpoint(str(folder / "checkpoint-{epoch}.h5")))
steps = 20 // hvd.size()
history = model.fit(
    dataset, steps_per_epoch=steps, callbacks=callbacks, epochs=3, verbose=0
).history
assert len(history["loss"]) == 3
assert len(list(folder.glob("*.h5"))) == (3 if hvd.rank() == 0 else 0)
weights = hvd.allgather_object([w.tobytes() for w in model.get_weights()])
assert all(other == weights[0] for other in weights)
if hvd.rank() == 0:
    again = hvd.load_model(str(folder / "checkpoint-3.h5"))
    assert [w.tobytes() for w in again.get_weights()] == weights[0]
print("all right")
