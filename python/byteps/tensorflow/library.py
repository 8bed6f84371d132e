"""The operations that this package has registered with TensorFlow."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import tensorflow as tf

from byteps.common.errors import UnavailableError

_LIBRARY = "_tensorflow.so"


@functools.cache
def operations() -> Any:
    """Return the functions that make operations; the first call loads them. Needs the native
    module."""
    from byteps import _core

    path = Path(str(_core.__file__)).with_name(_LIBRARY)
    try:
        library = tf.load_op_library(str(path))
    except (tf.errors.OpError, RuntimeError) as error:
        raise UnavailableError(f"TensorFlow cannot load {path}: {error}") from error
    if not hasattr(library, "byteps_number"):
        raise UnavailableError(
            f"TensorFlow {tf.__version__} has not taken the operations of {path}. "
            "byteps.tensorflow is for TensorFlow 2.15 and later, from PyPI."
        )
    return library
