"""Which Keras a program of TensorFlow means."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import tensorflow as tf


def keras_2() -> Any:
    """Return the module of Keras 2; None if the program uses Keras 3.

    TensorFlow has Keras 2 as `tf.keras` up to 2.15, and later with TF_USE_LEGACY_KERAS=1. Without
    that, the package tf_keras is Keras 2: a program that has imported it means that one.
    """
    version = getattr(tf.keras, "__version__", "2.")  # TensorFlow 2.15 does not say
    if version.startswith("2."):
        return tf.keras
    return importlib.import_module("tf_keras") if "tf_keras" in sys.modules else None
