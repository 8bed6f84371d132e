"""Trains a small network on scikit-learn's handwritten digits, with TensorFlow.

Run it: bps run -np 2 --servers 2 python examples/tensorflow_digits.py
Alone, without byteps: python examples/tensorflow_digits.py --alone. Both see the same batches, so
both learn the same, whatever the number of workers. With --float64 the weights agree to 1e-12.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from digits import BATCH, TRAINED_ON, arguments_of, load_data

import byteps.tensorflow as bps


def make_weights(seed: int, dtype: str) -> list[tf.Variable]:
    """Return kernel and bias of dense layers."""
    dice = np.random.default_rng(seed)
    weights = []
    for rows, columns in ((64, 128), (128, 64), (64, 10)):
        kernel = dice.normal(size=(rows, columns)) / rows**0.5
        weights += [tf.Variable(kernel, dtype=dtype), tf.Variable(tf.zeros(columns, dtype))]
    return weights


def predict(weights: list[tf.Variable], images: tf.Tensor) -> tf.Tensor:
    """Return a number for each digit: the highest is what the network sees."""
    for kernel, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        images = tf.nn.relu(images @ kernel + bias)
    return images @ weights[-2] + weights[-1]


def train(alone: bool, epochs: int, dtype: str) -> list[tf.Variable]:
    """Train, and report loss and accuracy after each epoch."""
    rank, size = (0, 1) if alone else (bps.rank(), bps.size())
    images, labels = load_data(dtype)
    weights = make_weights(rank, dtype)  # different ones, until rank 0's are broadcast
    if not alone:
        bps.broadcast_variables(weights, root_rank=0)
    speeds = [tf.Variable(tf.zeros_like(weight)) for weight in weights]

    @tf.function(reduce_retracing=True)
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            outputs = predict(weights, images)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs)
            # The mean over the whole batch is the mean over ranks of this.
            loss = tf.reduce_sum(losses) * size / BATCH
        if not alone:
            tape = bps.DistributedGradientTape(tape)
        for weight, speed, gradient in zip(
            weights, speeds, tape.gradient(loss, weights), strict=True
        ):
            speed.assign(0.9 * speed + gradient)
            weight.assign_sub(0.05 * speed)
        return loss

    for epoch in range(epochs):
        order = np.random.default_rng(epoch).permutation(TRAINED_ON)
        losses = []
        for batch in order.reshape(-1, BATCH):
            mine = np.array_split(batch, size)[rank]
            losses.append(float(step(tf.constant(images[mine]), tf.constant(labels[mine]))))
        mean = float(np.mean(losses))
        if not alone:
            mean = float(bps.allreduce(mean, name="loss"))
        outputs = predict(weights, tf.constant(images[TRAINED_ON:])).numpy()
        right = outputs.argmax(1) == labels[TRAINED_ON:]
        if rank == 0:
            print(f"epoch {epoch + 1}/{epochs}: loss {mean:.4f}, accuracy {right.mean():.1%}")
    return weights


def main() -> None:
    """Train as the arguments say."""
    arguments = arguments_of(__doc__)
    if not arguments.alone:
        bps.init()
    weights = train(arguments.alone, arguments.epochs, arguments.dtype)
    if not arguments.alone:
        bps.check_replicas(weights)
    if arguments.weights and (arguments.alone or bps.rank() == 0):
        np.savez(arguments.weights, *[weight.numpy() for weight in weights])
    if not arguments.alone:
        bps.shutdown()


if __name__ == "__main__":
    main()
