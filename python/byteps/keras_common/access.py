"""What the callbacks ask of a Keras, whichever version it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from byteps.common.process_sets import ProcessSet, global_process_set
from byteps.numpy.arrays import Array
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
    # The names have the place in the list, which is the same on all ranks. The numbers that Keras
    # gives layers depend on the models that a rank has made before.
    arrays = {
        f"{place:04}.{getattr(variable, 'name', 'variable')}": np.array(keras.read(variable))
        for place, variable in enumerate(variables)
    }
    broadcast_parameters(arrays, root_rank, prefix, process_set)
    for variable, array in zip(variables, arrays.values(), strict=True):
        keras.write(variable, array)
