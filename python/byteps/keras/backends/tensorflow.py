"""Keras 3 on TensorFlow."""

from byteps.keras_common.on_tensorflow import BACKEND

__all__ = ["BACKEND"]
