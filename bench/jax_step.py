"""What a jitted step of JAX costs with byteps, and whether the exchange overlaps with compute.

    PYTHON bench/jax_step.py [--repeats 20]

PYTHON is one with JAX, such as that of .venv-jax-new after `./dev lane frameworks`.

- **Cost.** One worker, no server: a step of SGD on a network, plain, and with an exchange of every
  gradient, to which nobody else contributes. The difference is what byteps costs.
- **Overlap.** Two workers, run with `bps run -np 2`: rank 0 computes, and rank 1 only brings
  gradients, late. A step with exchanges is compared with a step without them, and with the
  exchanges alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
from step_times import LATE_S, print_cost, print_overlap

import byteps.jax as bps

WIDTH = 256
LAYERS = 16
ROWS = 64
ROWS_OF_OVERLAP = 4096  # so that a step takes about as long as the other rank is late

Gradients = list[jax.Array]


def make_step(layers: int, exchange: Callable[[Gradients], Gradients]) -> Callable[[], object]:
    keys = jax.random.split(jax.random.key(0), layers)
    weights = [jax.random.normal(key, (WIDTH, WIDTH)) / WIDTH**0.5 for key in keys]
    rows = ROWS if bps.size() == 1 else ROWS_OF_OVERLAP
    batch = jax.random.normal(jax.random.key(bps.rank()), (rows, WIDTH))

    def loss_of(weights: Gradients) -> jax.Array:
        values = batch
        for weight in weights:
            values = jnp.tanh(values @ weight)
        return (values**2).mean()

    @jax.jit
    def step(weights: Gradients) -> Gradients:
        gradients = exchange(jax.grad(loss_of)(weights))
        return [w - 0.01 * gradient for w, gradient in zip(weights, gradients, strict=True)]

    return lambda: jax.block_until_ready(step(weights))


def pushed(gradients: Gradients) -> Gradients:
    return bps.push_pull(gradients, name="gradients")


def measure_overlap(repeats: int) -> None:
    layers = 2 * LAYERS
    given = [jnp.ones((WIDTH, WIDTH))] * layers

    def exchange() -> None:
        time.sleep(LATE_S if bps.rank() else 0.0)
        pushed(given)

    compute, both = make_step(layers, lambda gradients: gradients), make_step(layers, pushed)
    if bps.rank() == 1:  # it leaves the cores to rank 0
        compute, both = (lambda: None), exchange
    print_overlap(compute, exchange, both, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
    bps.init()
    if bps.size() == 1:
        plain = make_step(LAYERS, lambda gradients: gradients)
        print_cost(plain, make_step(LAYERS, pushed), LAYERS, repeats)
    else:
        measure_overlap(repeats)
    bps.shutdown()


main()
