"""Of byteps.jax: programs that XLA would run one operation after the other."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import byteps.jax as bps


def check_small_programs_with_uneven_rows(rank: int, size: int) -> None:
    """XLA orders exchanges by the memory of their results, which is another one on each rank."""
    mine = [jnp.full((i % 7 + 1, 2), 1.0 + i, jnp.float32) for i in range(8)]

    def total(arrays: list[Any]) -> Any:
        scatter = partial(bps.reducescatter, op=bps.Sum)
        parts = [scatter(a * a, name=f"small {i}") for i, a in enumerate(arrays)]
        return sum(jnp.sum(part) for part in parts)

    gradients = jax.jit(jax.grad(total))(mine)
    for array, gradient in zip(mine, gradients, strict=True):
        assert (np.asarray(gradient) == 2 * size * np.asarray(array)).all()
