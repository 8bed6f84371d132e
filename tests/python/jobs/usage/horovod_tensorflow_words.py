"""A program in the style of Horovod's documentation: vectors of words, with sampled losses whose
gradients are rows; the import is changed."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import byteps.tensorflow as hvd

hvd.init()

WORDS, WIDTH, BATCH = 50, 7, 17
tf.random.set_seed(hvd.rank())
dice = np.random.default_rng(hvd.rank())
table = tf.Variable(tf.random.uniform([WORDS, WIDTH], -1.0, 1.0))
weights = tf.Variable(tf.random.truncated_normal([WORDS, WIDTH], stddev=0.3))
biases = tf.Variable(tf.zeros([WORDS]))
variables = [table, weights, biases]
optimizer = tf.keras.optimizers.SGD(0.5 * hvd.size())


def batch():
    words = dice.integers(0, WORDS, BATCH)
    return tf.constant(words), tf.constant((words[:, None] + 1) % WORDS)


@tf.function
def step(words, contexts):
    with tf.GradientTape() as tape:
        vectors = tf.nn.embedding_lookup(table, words)
        losses = tf.nn.nce_loss(
            weights, biases, contexts, vectors, num_sampled=5, num_classes=WORDS
        )
        loss = tf.reduce_mean(losses)
    tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, variables)
    assert all(isinstance(one, tf.IndexedSlices) for one in gradients)
    optimizer.apply_gradients(zip(gradients, variables, strict=True))
    return loss


losses = []
for number in range(60):
    losses.append(float(step(*batch())))
    if number == 0:  # after the first step, when the optimizer has its variables
        hvd.broadcast_variables(variables, root_rank=0)
        hvd.broadcast_variables(optimizer.variables, root_rank=0)
hvd.check_replicas(variables)
first, last = (float(hvd.allreduce(tf.reduce_mean(part))) for part in (losses[:10], losses[-10:]))
assert last < first, (first, last)

# The nearest words of some, on rank 0; the others wait.
norms = table / tf.norm(table, axis=1, keepdims=True)
nearest = tf.math.top_k(tf.matmul(norms[:5], norms, transpose_b=True), 3).indices
assert hvd.allgather(nearest).shape == (5 * hvd.size(), 3)
assert np.unique(hvd.allgather(nearest[None]), axis=0).shape[0] == 1
print("all right")
