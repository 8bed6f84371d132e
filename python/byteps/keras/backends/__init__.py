"""The backend that Keras uses in this process."""

from __future__ import annotations

import importlib
from typing import Any

import keras

from byteps.keras_common.backend import Backend

_NAMES = ("jax", "torch", "tensorflow")


def _load() -> Backend:
    if int(keras.__version__.partition(".")[0]) < 3:
        raise ImportError(
            f"byteps.keras needs Keras 3; this is Keras {keras.__version__}. For Keras 2 use "
            "byteps.tensorflow.keras."
        )
    name = keras.backend.backend()
    if name not in _NAMES:
        raise ImportError(
            f"byteps.keras has no backend {name!r}. Set KERAS_BACKEND to one of "
            f"{', '.join(_NAMES)} before the first import of keras."
        )
    module: Any = importlib.import_module(f"byteps.keras.backends.{name}")
    made: Backend = module.BACKEND
    return made


BACKEND = _load()
