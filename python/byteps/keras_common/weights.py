"""The callback that gives all ranks the root's weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from byteps.common.session import default
from byteps.keras_common.access import Keras, broadcast_state_with, broadcast_variables_with


class BroadcastOnce:
    """Gives all ranks the weights and the optimizer's state of the root, after the first batch.

    Arguments: (root_rank, device='', local_variables=None). Local variables, one or a list, stay.

    Example::

        callbacks = [bps.callbacks.BroadcastGlobalVariablesCallback(0)]
    """

    # After the first batch, because the optimizer makes its variables in that batch.

    byteps_keras: ClassVar[Keras]
    model: Any

    def __init__(self, root_rank: int = 0, device: str = "", local_variables: Any = None) -> None:
        """Prepare to broadcast from `root_rank` all variables but the local ones."""
        super().__init__()
        del device
        self.root_rank = root_rank
        self.broadcast_done = False
        self._local = {id(variable) for variable in variables_in(local_variables)}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Broadcast, the first time."""
        del batch, logs
        if self.broadcast_done:
            return
        self.broadcast_done = True
        if default.size() <= 1:
            return
        model = self.model
        keras = self.byteps_keras
        # Weights only: the states of random generators differ, or all ranks would drop out alike.
        weights = [weight for weight in model.weights if id(weight) not in self._local]
        broadcast_variables_with(keras, weights, self.root_rank, "Model.")
        broadcast_state_with(keras, model.optimizer, self.root_rank, "Optimizer.")


def variables_in(given: Any) -> Sequence[Any]:
    """Return the variables that the user gives: one, some, or None. ValueError for others."""
    if given is None:
        return []
    variables = list(given) if isinstance(given, (list, tuple)) else [given]
    for variable in variables:
        if not (hasattr(variable, "assign") and hasattr(variable, "shape")):
            raise ValueError(
                f"local_variables has a {type(variable).__name__}; give a variable of Keras, or a "
                "list of them."
            )
    return variables
