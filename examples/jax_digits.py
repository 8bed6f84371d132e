"""Trains a small network on scikit-learn's handwritten digits, with JAX and optax.

Run it: bps run -np 2 --servers 2 python examples/jax_digits.py
Alone, without byteps: python examples/jax_digits.py --alone. Both see the same batches, so both
learn the same, whatever the number of workers. With --float64 the weights agree to 1e-12.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from digits import BATCH, TRAINED_ON, arguments_of, load_data

import byteps.jax as bps

LAYERS = (64, 128, 64, 10)


def make_weights(seed: int, dtype: str) -> list[dict[str, jax.Array]]:
    """Return the weights of dense layers."""
    dice = np.random.default_rng(seed)
    return [
        {
            "kernel": jnp.asarray(dice.normal(size=(rows, columns)) / rows**0.5, dtype),
            "bias": jnp.zeros(columns, dtype),
        }
        for rows, columns in itertools.pairwise(LAYERS)
    ]


def predict(weights: list[dict[str, jax.Array]], images: jax.Array) -> jax.Array:
    """Return a number for each digit: the highest is what the network sees."""
    for layer in weights[:-1]:
        images = jax.nn.relu(images @ layer["kernel"] + layer["bias"])
    return images @ weights[-1]["kernel"] + weights[-1]["bias"]


def train(alone: bool, epochs: int, dtype: str) -> Any:
    """Train, and report loss and accuracy after each epoch."""
    rank, size = (0, 1) if alone else (bps.rank(), bps.size())
    images, labels = (jnp.asarray(one) for one in load_data(dtype))
    weights = make_weights(rank, dtype)  # different ones, until rank 0's are broadcast
    optimizer = optax.sgd(0.05, momentum=0.9)
    if not alone:
        weights = bps.broadcast_parameters(weights, root_rank=0)
        optimizer = bps.DistributedOptimizer(optimizer)
    state = optimizer.init(weights)

    def loss_of(weights: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
        # The mean over the whole batch is the mean over ranks of this.
        outputs = predict(weights, images)
        losses = optax.softmax_cross_entropy_with_integer_labels(outputs, labels)
        return losses.sum() * size / BATCH

    @jax.jit
    def step(weights: Any, state: Any, images: jax.Array, labels: jax.Array) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(weights, images, labels)
        updates, state = optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state, loss

    for epoch in range(epochs):
        order = np.random.default_rng(epoch).permutation(TRAINED_ON)
        losses = []
        for batch in order.reshape(-1, BATCH):
            mine = np.array_split(batch, size)[rank]
            weights, state, loss = step(weights, state, images[mine], labels[mine])
            losses.append(float(loss))
        mean = float(np.mean(losses))
        if not alone:
            mean = float(bps.allreduce(mean, name="loss"))
        right = predict(weights, images[TRAINED_ON:]).argmax(1) == labels[TRAINED_ON:]
        if rank == 0:
            print(f"epoch {epoch + 1}/{epochs}: loss {mean:.4f}, accuracy {right.mean():.1%}")
    return weights


def main() -> None:
    """Train as the arguments say."""
    arguments = arguments_of(__doc__)
    jax.config.update("jax_enable_x64", arguments.dtype == "float64")
    if not arguments.alone:
        bps.init()
    weights = train(arguments.alone, arguments.epochs, arguments.dtype)
    if not arguments.alone:
        bps.check_replicas(weights)
    if arguments.weights and (arguments.alone or bps.rank() == 0):
        np.savez(arguments.weights, *jax.tree.leaves(weights))
    if not arguments.alone:
        bps.shutdown()


if __name__ == "__main__":
    main()
