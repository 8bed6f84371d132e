"""What the jobs of Keras 3 share: a small model, its data, and the order of the checks."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import keras_alone  # noqa: F401
import numpy as np

import keras  # isort: skip

import byteps.keras as bps

BACKEND = keras.backend.backend()


def run(*modules: ModuleType) -> None:
    """Run the functions check_* of modules, with a barrier behind each."""
    bps.init()
    rank, size = bps.rank(), bps.size()
    for module in modules:
        for name, check in sorted(vars(module).items()):
            if name.startswith("check_"):
                check(rank, size)
                bps.barrier(name=f"after {module.__name__} {name}")
    bps.shutdown()
    print(f"all right {rank}/{size}")


def make_model(seed: int, width: int = 8) -> Any:
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(width, activation="tanh"),
            keras.layers.Dense(1),
        ]
    )


def data(rank: int, rows: int = 16) -> tuple[Any, Any]:
    dice = np.random.default_rng(rank)
    x = dice.normal(size=(rows, 4)).astype("float32")
    return x, x.sum(1, keepdims=True)


def fit(model: Any, rank: int, callbacks: Any = (), epochs: int = 2, **more: Any) -> Any:
    x, y = data(rank)
    options = {"batch_size": 4, "epochs": epochs, "verbose": 0, "shuffle": False, **more}
    return model.fit(x, y, callbacks=list(callbacks), **options).history


def assert_alike(model: Any, name: str) -> None:
    """Raise unless all ranks have the same weights, bit for bit."""
    everybody = bps.allgather_object([w.tobytes() for w in model.get_weights()], name=name)
    assert all(other == everybody[0] for other in everybody), name


def assert_raises(expected: type[BaseException], text: str, function: Callable[[], Any]) -> None:
    found: BaseException | None = None
    try:
        with bps.typed_errors():
            function()
    except expected as error:
        found = error
    assert found is not None, f"no {expected.__name__}: {text}"
    assert text in str(found), str(found)
