"""Keras 2, as the callbacks see it; and the broadcast of variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.keras_common.access import broadcast_variables_with
from byteps.numpy.memory import Array
from byteps.tensorflow.keras.installed_keras import keras_2

keras: Any = keras_2()


class _Keras2:
    def read(self, variable: Any) -> Array:
        return np.asarray(keras.backend.get_value(variable))

    def write(self, variable: Any, values: Array) -> None:
        keras.backend.set_value(variable, values)

    def optimizer_variables(self, optimizer: Any) -> list[Any]:
        found = optimizer.variables
        return list(found() if callable(found) else found)

    def momenta(self, optimizer: Any) -> list[Any]:
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        if hasattr(inner, "get_slot_names"):  # an old optimizer
            if "momentum" not in inner.get_slot_names():
                return []
            return [w for w in inner.weights if w.name.partition(":")[0].endswith("/momentum")]
        if not getattr(inner, "momentum", 0):
            return []
        return list(getattr(inner, "momentums", None) or getattr(inner, "_momentums", None) or [])


KERAS_2 = _Keras2()


def broadcast_variables(
    variables: Sequence[Any], root_rank: int, process_set: ProcessSet = global_process_set
) -> None:
    """Give variables of Keras the values of the root's, bit for bit.

    A rank with other variables is a MismatchError on every rank.

    Example::

        bps.broadcast_variables(model.weights, root_rank=0)
    """
    broadcast_variables_with(KERAS_2, variables, root_rank, "Variable.", process_set)
