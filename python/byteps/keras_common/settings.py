"""What the user of a distributed optimizer of Keras has chosen, and what it has to exchange."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from byteps.common.gradients.exchange_options import ExchangeOptions, is_whole
from byteps.common.gradients.object_names import OptimizerNames
from byteps.common.session.process_sets import has_others


@dataclass(frozen=True)
class Settings:
    """What the user has chosen."""

    options: ExchangeOptions
    name: str = "Gradient"
    divides_by_passes: bool = False  # average_aggregated_gradients
    local_layers: tuple[Any, ...] = ()
    scales_local: bool = True

    @property
    def passes(self) -> int:
        """How many calls make a step."""
        return int(self.options.passes_per_step)


def check_groups(num_groups: int, groups: Any) -> None:
    """Raise for what are no groups. They change nothing here.

    The gradients of a step travel when all ranks have come with the same ones, as one group does.
    """
    if num_groups != 0:
        warnings.warn(
            "Parameter `num_groups` has been replaced with `groups`.",
            DeprecationWarning,
            stacklevel=3,
        )
        groups = num_groups if groups is None else groups
    if groups is None:
        return
    is_list = isinstance(groups, (list, tuple)) and all(
        isinstance(g, (list, tuple)) for g in groups
    )
    if not is_list and not (is_whole(groups) and groups > 0):
        raise ValueError(
            f"groups is {groups!r}; it must be a whole number above 0, or a list of lists of "
            "variables."
        )


def layers_in(given: Any) -> tuple[Any, ...]:
    """Return the layers that the user gives: one, some, or None. ValueError for others."""
    if given is None:
        return ()
    layers = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    for layer in layers:
        if not hasattr(layer, "trainable_weights"):
            raise ValueError(
                f"local_layers has a {type(layer).__name__}; give a layer of Keras, or a list of "
                "them."
            )
    return layers


class OptimizerPart:
    """What a distributed optimizer knows beside what its class knows. One thread at a time."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.is_inside = False  # the gradients are combined already
        self.hides_own = False  # the variables of this part are not told
        self.sums: list[Any] = []  # of the passes of a step, a variable for each that is trained
        self.passes: Any = None  # a variable: how many passes are in the sums
        self._local: dict[int, Any] = {}
        self._names: OptimizerNames | None = None

    @property
    def own_variables(self) -> list[Any]:
        """The variables of this part, which nobody saves."""
        return [] if self.passes is None else [self.passes, *self.sums]

    @property
    def is_active(self) -> bool:
        """Whether there is anybody to exchange with."""
        return has_others(self.settings.options.process_set)

    def register_local(self, variable: Any) -> None:
        """Do not exchange the gradient of the variable."""
        self._local[id(variable)] = variable

    def call_name(self) -> str:
        """Return the name of the exchange in the present session.

        The optimizer takes it with its first exchange: the first of all has no number.
        """
        if self._names is None:
            self._names = OptimizerNames(self.settings.options.process_set)
        self._names.follow()
        return self._names.told(self.settings.name)

    def split(
        self, gradients: Sequence[Any], variables: Sequence[Any]
    ) -> tuple[list[int], list[int]]:
        """Return the places of the gradients to exchange, and of those of local variables."""
        local = {id(w) for layer in self.settings.local_layers for w in layer.trainable_weights}
        local |= self._local.keys()
        places = [place for place, gradient in enumerate(gradients) if gradient is not None]
        return (
            [place for place in places if id(variables[place]) not in local],
            [place for place in places if id(variables[place]) in local],
        )

    def local_divisor(self) -> int:
        """Return what gradients of local variables are divided by."""
        return self.settings.options.process_set.size() if self.settings.scales_local else 1
