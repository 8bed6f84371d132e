"""A worker: trains with byteps.jax in many ways; each equals the same training alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import byteps.jax as bps

jax.config.update("jax_enable_x64", True)
STEPS = 4
ROWS = 4  # of each rank's batch


@dataclass
class Case:
    name: str
    optimizer: Any
    passes: int = 1
    is_compiled: bool = True
    options: dict[str, Any] = field(default_factory=dict)


CASES = (
    Case("sgd", optax.sgd(0.1, momentum=0.9)),
    Case("sgd without jit", optax.sgd(0.1, momentum=0.9), is_compiled=False),
    Case("adamw", optax.adamw(0.01)),
    Case("clipped", optax.chain(optax.clip_by_global_norm(0.1), optax.adam(0.01))),
    Case("accumulation", optax.sgd(0.1), passes=3, options={"backward_passes_per_step": 3}),
    Case("predivided", optax.adam(0.01), options={"gradient_predivide_factor": 4.0}),
)


class Summing:
    """Steps on the sum of the gradients of some passes."""

    def __init__(self, optimizer: Any, passes: int) -> None:
        self._optimizer = optimizer
        self._passes = passes

    def init(self, weights: Any) -> Any:
        return self._optimizer.init(weights), jax.tree.map(jnp.zeros_like, weights), 0

    def update(self, gradients: Any, state: Any, weights: Any) -> Any:
        inner, sums, passes = state
        sums = jax.tree.map(jnp.add, sums, gradients)
        updates, stepped = self._optimizer.update(sums, inner, weights)
        is_last = (passes + 1) % self._passes == 0
        pick = partial(jax.tree.map, partial(jnp.where, is_last))
        none = jax.tree.map(jnp.zeros_like, sums)
        return pick(updates, none), (pick(stepped, inner), pick(none, sums), passes + 1)


def make_weights(seed: int) -> Any:
    dice = np.random.default_rng(seed)
    return [
        {"kernel": jnp.asarray(dice.normal(size=shape)), "bias": jnp.zeros(shape[1])}
        for shape in ((6, 16), (16, 16), (16, 1))
    ]


def loss_of(weights: Any, batch: Any) -> Any:
    values = batch
    for layer in weights:
        values = jnp.tanh(values @ layer["kernel"] + layer["bias"])
    return (values**2).mean()


def train(case: Case, optimizer: Any, weights: Any, pick: Callable[[Any], Any]) -> Any:
    """Return the weights after some steps on the part of the batches that `pick` takes."""

    def step(weights: Any, state: Any, batch: Any) -> Any:
        gradients = jax.grad(loss_of)(weights, batch)
        updates, state = optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state

    step = jax.jit(step) if case.is_compiled else step
    state = optimizer.init(weights)
    dice = np.random.default_rng(7)
    for _ in range(STEPS * case.passes):
        batch = jnp.asarray(dice.normal(size=(ROWS * bps.size(), 6)))
        weights, state = step(weights, state, pick(batch))
    return weights


def check(case: Case, rank: int) -> None:
    first = make_weights(0)
    mine = bps.broadcast_parameters(make_weights(rank), root_rank=0)
    optimizer = bps.DistributedOptimizer(case.optimizer, **case.options)
    mine = train(case, optimizer, mine, lambda batch: batch[rank * ROWS : (rank + 1) * ROWS])
    bps.check_replicas(mine, name=case.name)
    if rank != 0:
        return  # all ranks have the same weights, so one compares
    alone = case.optimizer
    if case.passes > 1:
        alone = Summing(alone, case.passes)
    alone = train(case, alone, first, lambda batch: batch)
    for one, other in zip(jax.tree.leaves(mine), jax.tree.leaves(alone), strict=True):
        difference = float(abs(one - other).max())
        assert difference < 1e-12, (case.name, difference)


def main() -> None:
    bps.init()
    for case in CASES:
        check(case, bps.rank())
    print(f"all right {bps.rank()}/{bps.size()}")
    bps.shutdown()


main()
