"""A rank with JAX on a GPU: results of calls outside of programs and inside jit must have the bits
of byteps.numpy. With the argument `cpu` the program tries itself on the processor.
"""

from __future__ import annotations

import os
import sys
from typing import Any

name = sys.argv[1] if len(sys.argv) > 1 else "cuda"
# Several ranks may share one GPU, with torch beside them.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ["JAX_PLATFORMS"] = name

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import byteps.jax as bps  # noqa: E402
import byteps.numpy as host  # noqa: E402

bps.init()
dice = np.random.default_rng(bps.rank())
tree = {f"layer {i}": dice.random((i + 1) * 1000 + i).astype("float32") for i in range(20)}
compared = 0


def same(what: str, found: Any, expected: np.ndarray) -> None:
    """Compare a result with that of the host."""
    global compared
    compared += 1
    platform = "gpu" if name == "cuda" else name
    if found.addressable_data(0).device.platform != platform:
        raise SystemExit(f"{what}: the result is not on the {platform}")
    if np.asarray(found).tobytes() != expected.tobytes():
        raise SystemExit(f"{what}: rank {bps.rank()} has other bits")


@jax.jit
def step(tree: Any) -> tuple[Any, Any, Any]:
    """Exchange what a program has computed, and compute with it."""
    busy = jnp.ones((1000, 1000) if name == "cuda" else (10, 10))
    for _ in range(10):
        busy = busy @ busy * 0.001
    mine = jax.tree.map(lambda leaf: leaf + busy[0, 0] * 0, tree)
    mean = bps.push_pull(mine, name="step")
    rows = bps.allgather(mine["layer 3"], name="rows")
    return mean, rows, bps.push_pull(mine["layer 1"])


on_device = jax.tree.map(jnp.asarray, tree)
expected = {key: host.push_pull(value, name=f"host {key}") for key, value in tree.items()}
rows = host.allgather(tree["layer 3"], name="host rows")
for _ in range(3):
    outside = bps.push_pull(on_device, name="outside")
    mean, gathered, unnamed = step(on_device)
    for key, value in expected.items():
        same(f"outside, {key}", outside[key], value)
        same(f"in a program, {key}", mean[key], value)
    same("rows", gathered, rows)
    same("without a name", unnamed, expected["layer 1"])
bps.shutdown()
print(f"all right: {compared} results compared, of JAX {jax.__version__}", flush=True)
