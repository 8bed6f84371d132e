"""A program in the style of Horovod's documentation: a benchmark with made-up data, with fp16
compression; the import is changed."""

import argparse
import os
import timeit

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import byteps.tensorflow as hvd

parser = argparse.ArgumentParser()
parser.add_argument("--fp16-allreduce", action="store_true")
parser.add_argument("--batch-size", type=int, default=7)
parser.add_argument("--num-iters", type=int, default=3)
arguments = parser.parse_args(["--fp16-allreduce"])

hvd.init()
model = tf.keras.Sequential(
    [
        tf.keras.Input((9, 9, 3)),
        tf.keras.layers.Conv2D(5, 3, activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(11),
    ]
)
optimizer = tf.keras.optimizers.SGD(0.01)
data = tf.random.uniform([arguments.batch_size, 9, 9, 3])
target = tf.random.uniform([arguments.batch_size], maxval=11, dtype=tf.int64)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
compression = hvd.Compression.fp16 if arguments.fp16_allreduce else hvd.Compression.none


@tf.function
def benchmark_step(first_batch):
    with tf.GradientTape() as tape:
        loss = loss_of(target, model(data, training=True))
    tape = hvd.DistributedGradientTape(tape, compression=compression)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


benchmark_step(first_batch=True)
hvd.broadcast_variables(model.variables, root_rank=0)
hvd.broadcast_variables(optimizer.variables, root_rank=0)
rates = []
for _ in range(arguments.num_iters):
    seconds = timeit.timeit(lambda: benchmark_step(first_batch=False), number=2)
    rates.append(2 * arguments.batch_size / seconds)
mean, deviation = np.mean(rates), 1.96 * np.std(rates)
total = hvd.allreduce(tf.constant(mean), op=hvd.Sum, name="images per second")
if hvd.rank() == 0:
    print(f"images per second on {hvd.size()} ranks: {float(total):.1f} +- {deviation:.1f}")
hvd.check_replicas(model.trainable_variables)
print("all right")
