"""Keras 3 on TensorFlow."""

from byteps.tensorflow.keras_backend import BACKEND

__all__ = ["BACKEND"]
