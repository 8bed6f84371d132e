"""Import this before Keras: on JAX and torch the process has no TensorFlow then.

byteps.keras does not need it there, and neither does Keras. But Keras imports TensorFlow wherever
it is installed, which takes longer than most checks.
"""

from __future__ import annotations

import os
import sys

if os.environ["KERAS_BACKEND"] != "tensorflow":
    sys.modules["tensorflow"] = None  # type: ignore[assignment]
