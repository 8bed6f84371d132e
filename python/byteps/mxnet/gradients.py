"""The exchange of gradients: pushed to the engine, without a wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from byteps.common import environment
from byteps.common.gradients.exchange_options import ExchangeOptions, is_whole
from byteps.common.gradients.gradient_exchange import gradient_call
from byteps.common.gradients.object_names import OptimizerNames
from byteps.common.session.process_sets import has_others
from byteps.mxnet.arrays import Array, classic, exchange_group, exchange_in_place


class Gradients:
    """Averages the gradients of one optimizer. One thread at a time."""

    def __init__(self, options: ExchangeOptions, num_groups: int = 0, prefix: str = "") -> None:
        """Take names in the present session; raise for options that make no sense."""
        if environment.async_training():
            raise NotImplementedError(
                "BYTEPS_ENABLE_ASYNC asks for asynchronous training, which this version does not "
                "have; unset it on all workers and servers."
            )
        options.check()
        if not is_whole(num_groups) or num_groups < 0:
            raise ValueError(f"num_groups is {num_groups!r}; it must be a whole number, 0 or more.")
        self.options = options
        self._num_groups = num_groups
        self._prefix = prefix
        self._names = OptimizerNames(options.process_set)

    @property
    def is_active(self) -> bool:
        """Whether there is anybody to exchange with."""
        return has_others(self.options.process_set)

    def parameter_name(self, place: object) -> str:
        """Return what the parameter at a place is called between ranks."""
        self._names.follow()
        return self._names.told(f"{self._prefix}{place}")

    @property
    def owner(self) -> str:
        """The name of the optimizer."""
        self._names.follow()
        return f"{self._prefix}{self._names.owner}"

    def average(self, gradients: Sequence[tuple[object, int, Array]]) -> None:
        """Overwrite gradients, each with its place and its priority, with the averages; at once."""
        self._names.follow()
        classics = [(place, priority, classic(array)) for place, priority, array in gradients]
        for group in self._groups(classics):
            if len(group) == 1:
                self._average_one(*group[0])
            else:
                self._average_group(group)

    def _groups(
        self, gradients: Sequence[tuple[object, int, Array]]
    ) -> list[Sequence[tuple[object, int, Array]]]:
        count, total = min(self._num_groups, len(gradients)), len(gradients)
        if count == 0:
            return [[gradient] for gradient in gradients]
        return [gradients[total * i // count : total * (i + 1) // count] for i in range(count)]

    def _call(self, text: str, priority: int) -> Any:
        name = self._names.gradient(f"{self._prefix}{text}")
        return gradient_call(self.options, name, priority)

    def _average_one(self, place: object, priority: int, gradient: Array) -> None:
        call = self._call(str(place), priority)
        sent, context = self.options.compression.compress(gradient)
        exchange_in_place(call, sent, is_plain=True)
        if sent is not gradient:
            self.options.compression.decompress(sent, context).copyto(gradient)

    def _average_group(self, group: Sequence[tuple[object, int, Array]]) -> None:
        places, priorities, gradients = zip(*group, strict=True)
        call = self._call(f"{places[0]}-{places[-1]}", max(priorities))
        sent = [self.options.compression.compress(gradient) for gradient in gradients]
        results = exchange_group(call, [array for array, _ in sent])
        for result, (_, context), gradient in zip(results, sent, gradients, strict=True):
            self.options.compression.decompress(result, context).copyto(gradient)
