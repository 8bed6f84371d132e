"""A worker: many steps, by turns in a program and outside, during which somebody may kill a
server."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import byteps.jax as bps

STEPS = 300


def step(weights: list[jax.Array], number: jax.Array, name: str) -> list[jax.Array]:
    """Return weights to which the ranks have added their parts. All numbers are exact."""
    gradients = [jnp.full_like(w, number * (bps.rank() + 1)) for w in weights]
    gradients = bps.push_pull(gradients, average=False, name=name)
    return [w + g for w, g in zip(weights, gradients, strict=True)]


def main() -> None:
    bps.init()
    weights = [jnp.asarray(np.zeros(1000 * n, np.float32)) for n in range(1, 6)]
    # JAX computes ahead, so the names of a program may be in use when its call has returned.
    ways = (jax.jit(partial(step, name="in a program")), partial(step, name="outside"))
    for number in range(STEPS):
        weights = ways[number % len(ways)](weights, np.float32(number))
        if number == 20:
            print("stepping", flush=True)
    ranks = bps.size() * (bps.size() + 1) // 2
    assert all((np.asarray(w) == STEPS * (STEPS - 1) // 2 * ranks).all() for w in weights)
    print(f"all right {bps.rank()}/{bps.size()}")
    bps.shutdown()


main()
