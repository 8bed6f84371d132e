"""A worker: trains with byteps.keras in many ways; each equals the same training alone.

Arguments: names of cases, to train in these only; `--jit`: one case, compiled.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import keras_alone  # noqa: F401
import numpy as np

import keras  # isort: skip

import byteps.keras as bps

STEPS = 3
ROWS = 4  # of each rank's batch

KERAS = keras.backend.backend()


@dataclass
class Case:
    name: str
    make: Any
    passes: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-12


CASES = (
    Case("sgd", lambda: keras.optimizers.SGD(0.1, momentum=0.9)),
    Case("adam", lambda: keras.optimizers.Adam(0.01)),
    Case("clipped", lambda: keras.optimizers.Adam(0.01, global_clipnorm=0.1)),
    Case("decay", lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1)),
    Case(
        "accumulation",
        lambda: keras.optimizers.SGD(0.1, momentum=0.9),
        passes=2,
        options={"backward_passes_per_step": 2, "average_aggregated_gradients": True},
    ),
    Case(
        "predivided",
        lambda: keras.optimizers.Adam(0.01),
        options={"gradient_predivide_factor": 4.0},
    ),
    Case(
        "fp16",
        lambda: keras.optimizers.SGD(0.1),
        options={"compression": bps.Compression.fp16},
        tolerance=1e-3,
    ),
)
IN_EVERY_WAY = ("sgd", "accumulation")


def dense(units: int, activation: str | None = None) -> Any:
    """Return a layer like Dense: that one multiplies in float32 on torch, whatever its type."""
    return keras.layers.EinsumDense(
        "ab,bc->ac", output_shape=units, bias_axes="c", activation=activation
    )


def make_model(seed: int) -> keras.Model:
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((6,)),
            dense(16, "tanh"),
            dense(16, "tanh"),
            dense(1),
        ]
    )


def data(rows: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    dice = np.random.default_rng(number)
    return dice.normal(size=(rows, 6)), dice.normal(size=(rows, 1))


# TensorFlow without XLA is a graph; torch without its compiler is eager.
WAYS = {
    "jax": ({"jit_compile": True}, {"run_eagerly": True}),
    "torch": ({"jit_compile": False},),
    "tensorflow": ({"jit_compile": False}, {"run_eagerly": True}),
}


def train(model: Any, optimizer: Any, way: dict[str, Any], mine: slice, batch: int) -> None:
    """Train on the part of each batch that `mine` says; `batch` is how many rows that has."""
    model.compile(optimizer, loss="mse", **way)
    inputs, targets = [], []
    for step in range(STEPS * 2):
        x, y = data(ROWS * bps.size(), step)
        inputs.append(x[mine])
        targets.append(y[mine])
    model.fit(
        np.concatenate(inputs), np.concatenate(targets), batch_size=batch, shuffle=False, verbose=0
    )


def train_alone(case: Case, way: dict[str, Any]) -> list[np.ndarray]:
    model = make_model(0)
    rows = ROWS * bps.size()
    # The mean over the batches of several passes is that over one large batch.
    train(model, case.make(), way, slice(None), rows * case.passes)
    return model.get_weights()


def check(case: Case, way: dict[str, Any]) -> None:
    rank = bps.rank()
    model = make_model(rank)
    bps.broadcast_variables(model.weights, root_rank=0)
    optimizer = bps.DistributedOptimizer(case.make(), **case.options)
    train(model, optimizer, way, slice(rank * ROWS, (rank + 1) * ROWS), ROWS)
    weights = model.get_weights()
    everybody = bps.allgather_object([w.tobytes() for w in weights], name="weights")
    assert all(other == everybody[0] for other in everybody), case.name
    expected = STEPS * 2
    assert int(optimizer.iterations) == expected, (case.name, optimizer.iterations)
    if rank != 0:
        return  # all ranks have the same weights, so one compares
    for one, other in zip(weights, train_alone(case, way), strict=True):
        assert one.dtype == np.float64
        difference = float(abs(one - other).max())
        assert difference < case.tolerance, (case.name, way, difference)


def main() -> None:
    if KERAS == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
    keras.config.set_floatx("float64")
    bps.init()
    is_compiled = "--jit" in sys.argv
    ways = ({"jit_compile": True},) if is_compiled else WAYS[KERAS]
    wanted = [case for case in CASES if not sys.argv[1:] or case.name in sys.argv]
    for case in CASES[:1] if is_compiled else wanted:
        # JAX compiles each operation of an eager step: two cases would take longer than all others.
        in_every_way = IN_EVERY_WAY[: 1 if KERAS == "jax" else None]
        for way in ways if case.name in in_every_way else ways[:1]:
            check(case, way)
    print(f"all right {bps.rank()}/{bps.size()}")
    bps.shutdown()


main()
