"""A worker: all operations, optimizers and callbacks of byteps.keras."""

from __future__ import annotations

import keras_checks
import keras_checks_callbacks
import keras_checks_edges
import keras_checks_fit
import keras_checks_values

keras_checks.run(keras_checks_values, keras_checks_fit, keras_checks_callbacks, keras_checks_edges)
