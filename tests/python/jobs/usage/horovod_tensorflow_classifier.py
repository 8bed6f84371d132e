"""A script as Horovod's documentation shows them for TensorFlow 2, with the import changed."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import byteps.tensorflow as hvd

hvd.init()
tf.random.set_seed(42 + hvd.rank())

# A task that can be learned: which quarter of the plane a point is in.
dice = np.random.default_rng(42)
inputs = dice.normal(size=(512, 2)).astype(np.float32)
labels = (inputs[:, 0] > 0).astype(np.int64) * 2 + (inputs[:, 1] > 0)
dataset = tf.data.Dataset.from_tensor_slices((inputs, labels))
dataset = dataset.shard(hvd.size(), hvd.rank()).repeat().shuffle(512, seed=1).batch(32)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(4, activation="softmax"),
    ]
)
loss = tf.losses.SparseCategoricalCrossentropy()
# The rate grows with the number of workers.
opt = tf.optimizers.Adam(0.01 * hvd.size())


@tf.function
def training_step(images, targets, first_batch):
    with tf.GradientTape() as tape:
        probs = model(images, training=True)
        loss_value = loss(targets, probs)

    tape = hvd.DistributedGradientTape(tape)
    grads = tape.gradient(loss_value, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables, strict=True))

    # After the first step, because the optimizer makes its variables there.
    if first_batch:
        hvd.broadcast_variables(model.variables, root_rank=0)
        variables = opt.variables() if callable(opt.variables) else opt.variables
        hvd.broadcast_variables(variables, root_rank=0)

    return loss_value


for batch, (images, targets) in enumerate(dataset.take(120 // hvd.size())):
    loss_value = training_step(images, targets, batch == 0)
    if batch % 10 == 0 and hvd.local_rank() == 0:
        print(f"Step #{batch}\tLoss: {loss_value:.6f}", flush=True)

hvd.check_replicas(model.variables)
accuracy = np.mean(np.argmax(model(inputs), axis=1) == labels)
accuracy = hvd.allreduce(tf.constant(accuracy), name="accuracy").numpy()
assert accuracy > 0.9, accuracy
print("all right")
