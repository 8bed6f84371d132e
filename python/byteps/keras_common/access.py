"""What the callbacks ask of a Keras, whichever version it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.numpy.memory import Array
from byteps.numpy.weights import broadcast_parameters


class Keras(Protocol):
    """One version of Keras. All methods block."""

    def read(self, variable: Any) -> Array:
        """Return the values of a variable."""

    def write(self, variable: Any, values: Array) -> None:
        """Give a variable other values."""

    def optimizer_variables(self, optimizer: Any) -> list[Any]:
        """Return the state of an optimizer."""

    def momenta(self, optimizer: Any) -> list[Any]:
        """Return the variables that hold the momentum of SGD and RMSprop; none without momentum."""


def broadcast_variables_with(
    keras: Keras,
    variables: Sequence[Any],
    root_rank: int,
    prefix: str,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Give variables the values of the root's, bit for bit.

    A rank with other variables is a MismatchError on every rank.
    """
    _broadcast(keras, variables, names_of(variables), root_rank, prefix, process_set)


def broadcast_state_with(keras: Keras, optimizer: Any, root_rank: int, prefix: str) -> None:
    """Give the variables of an optimizer the values of the root's, bit for bit."""
    # Their names tell the layers, so they may differ.
    variables = keras.optimizer_variables(optimizer)
    names = [f"{place:04}" for place in range(len(variables))]
    _broadcast(keras, variables, names, root_rank, prefix, global_process_set)


def _broadcast(
    keras: Keras,
    variables: Sequence[Any],
    names: Sequence[str],
    root_rank: int,
    prefix: str,
    process_set: ProcessSet,
) -> None:
    arrays = {
        name: np.array(keras.read(variable))
        for name, variable in zip(names, variables, strict=True)
    }
    broadcast_parameters(arrays, root_rank, prefix, process_set)
    for variable, array in zip(variables, arrays.values(), strict=True):
        keras.write(variable, array)


def names_of(variables: Sequence[Any]) -> list[str]:
    """Return names that sort in the order of the model.

    The numbers that Keras gives layers depend on the models that a rank has made before, so they
    are not in the names.
    """
    return [f"{place:04}.{_last_name(variable)}" for place, variable in enumerate(variables)]


def _last_name(variable: Any) -> str:
    """Return the name of a variable within its layer."""
    name = getattr(variable, "name", None) or "variable"
    return str(name).rpartition("/")[2].partition(":")[0]
