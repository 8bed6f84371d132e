"""Programs as byteps.jax makes them for GPUs, where a tree is one call: here on the processor."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

import byteps.jax as bps
from byteps.jax import compiled


def check_programs_for_gpus(rank: int, size: int) -> None:
    """They do what others do, also their derivatives and batches."""
    tree = {"w": jnp.arange(6.0).reshape(2, 3) + rank, "b": jnp.full(4, rank + 1, jnp.float32)}

    def loss(tree: Any, name: str | None) -> Any:
        summed = bps.allreduce(tree, name=name, op=bps.Sum, postscale_factor=0.5)
        return sum((leaf * leaf).sum() for leaf in jax.tree.leaves(summed))

    def all_of_them(name: str) -> list[Any]:
        rows = {key: jnp.full((size * 2, 3), float(rank)) for key in "xy"}
        calls = (bps.allgather, bps.alltoall, partial(bps.reducescatter, op=bps.Sum))
        return [
            jax.jit(partial(bps.push_pull, name=f"{name} mean"))(tree),
            jax.jit(partial(bps.broadcast, root_rank=1 % size, name=f"{name} copy"))(tree),
            *(jax.jit(partial(call, name=f"{name} {i}"))(rows) for i, call in enumerate(calls)),
            jax.jit(jax.value_and_grad(partial(loss, name=f"{name} loss")))(tree),
            jax.jit(jax.value_and_grad(partial(loss, name=None)))(tree),
            jax.jit(jax.vmap(partial(bps.allreduce, name=f"{name} batch", op=bps.Max)))(rows),
        ]

    expected = all_of_them("apart")
    compiled.is_for_gpu, before = lambda: True, compiled.is_for_gpu
    try:
        found = all_of_them("as one")
    finally:
        compiled.is_for_gpu = before
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()
