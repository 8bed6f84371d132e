"""A script as Horovod's documentation shows them for TensorFlow 1, with the import changed."""

import os
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow.compat.v1 as tf

import byteps.tensorflow as hvd

tf.disable_eager_execution()
hvd.init()

dice = np.random.default_rng(42)
inputs = dice.normal(size=(512, 2)).astype(np.float32)
labels = (inputs[:, 0] > 0).astype(np.int64) * 2 + (inputs[:, 1] > 0)

images = tf.placeholder(tf.float32, [None, 2], name="images")
targets = tf.placeholder(tf.int64, [None], name="targets")
tf.set_random_seed(1 + hvd.rank())
first = tf.get_variable("first", [2, 32])
bias = tf.get_variable("bias", [32], initializer=tf.zeros_initializer())
second = tf.get_variable("second", [32, 4])
logits = tf.nn.relu(images @ first + bias) @ second
loss = tf.losses.sparse_softmax_cross_entropy(targets, logits)

# The rate grows with the number of workers.
opt = tf.train.AdagradOptimizer(0.2 * hvd.size())
opt = hvd.DistributedOptimizer(opt)
global_step = tf.train.get_or_create_global_step()
train_op = opt.minimize(loss, global_step=global_step)

hooks = [
    # All ranks start from the weights of rank 0.
    hvd.BroadcastGlobalVariablesHook(0),
    tf.train.StopAtStepHook(last_step=200 // hvd.size()),
    tf.train.LoggingTensorHook(tensors={"step": global_step, "loss": loss}, every_n_iter=50),
]

# Only rank 0 writes checkpoints, so that the others cannot destroy them.
checkpoint_dir = tempfile.mkdtemp() if hvd.rank() == 0 else None
generator = np.random.default_rng(hvd.rank())

with tf.train.MonitoredTrainingSession(checkpoint_dir=checkpoint_dir, hooks=hooks) as session:
    while not session.should_stop():
        rows = generator.integers(0, 512, size=32)
        _, last = session.run(
            [train_op, loss], feed_dict={images: inputs[rows], targets: labels[rows]}
        )

print(f"rank {hvd.rank()}: loss {last:.3f}", flush=True)
assert last < 0.6, last
if hvd.rank() == 0:
    assert tf.train.latest_checkpoint(checkpoint_dir) is not None
print("all right")
