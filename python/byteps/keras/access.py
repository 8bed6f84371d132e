"""Keras 3, as the callbacks see it; and the broadcast of variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import keras
import numpy as np

from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.keras_common.access import broadcast_variables_with
from byteps.numpy.memory import Array


class _Keras3:
    def read(self, variable: Any) -> Array:
        return np.asarray(keras.ops.convert_to_numpy(variable))

    def write(self, variable: Any, values: Array) -> None:
        variable.assign(values)

    def optimizer_variables(self, optimizer: Any) -> list[Any]:
        return list(optimizer.variables)

    def momenta(self, optimizer: Any) -> list[Any]:
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        if not getattr(inner, "momentum", 0) or not inner.built:
            return []
        found = getattr(inner, "momentums", None) or getattr(inner, "_momentums", None) or []
        return [variable for variable in found if variable is not None]


KERAS = _Keras3()


def broadcast_variables(
    variables: Sequence[Any], root_rank: int, process_set: ProcessSet = global_process_set
) -> None:
    """Give variables of Keras the values of the root's, bit for bit.

    A rank with other variables is a MismatchError on every rank.

    Example::

        bps.broadcast_variables(model.weights, root_rank=0)
    """
    broadcast_variables_with(KERAS, variables, root_rank, "Variable.", process_set)


def broadcast_global_variables(root_rank: int) -> NoReturn:
    """Raise RuntimeError: Keras 3 has no list of all variables.

    Example::

        bps.broadcast_variables(model.weights, root_rank=0)  # instead
    """
    raise RuntimeError(
        "broadcast_global_variables needs a graph of TensorFlow 1; Keras 3 has no list of all "
        f"variables. Use broadcast_variables(model.weights, root_rank={root_rank}), or "
        f"callbacks.BroadcastGlobalVariablesCallback({root_rank}) in model.fit."
    )
