"""A worker: many steps of one jitted function, during which somebody may kill a server."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import byteps.jax as bps

STEPS = 300


@jax.jit
def step(weights: list[jax.Array], number: jax.Array) -> list[jax.Array]:
    """Return weights to which each rank has added its part."""
    gradients = [jnp.tanh(w) + number * (bps.rank() + 1) for w in weights]
    gradients = bps.push_pull(gradients, name="gradients")
    return [w + 0.01 * g for w, g in zip(weights, gradients, strict=True)]


def main() -> None:
    bps.init()
    weights = [jnp.zeros(1000 * n) for n in range(1, 6)]
    for number in range(STEPS):
        weights = step(weights, jnp.float32(number))
        if number == 20:
            print("stepping", flush=True)
    bps.check_replicas(weights)
    print(f"all right {bps.rank()}/{bps.size()}: {float(sum(w.sum() for w in weights)):.6e}")
    bps.shutdown()


main()
