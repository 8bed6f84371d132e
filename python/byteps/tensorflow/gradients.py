"""The exchange of a list of gradients: what tapes and optimizers of TensorFlow and Keras share."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from byteps.common.gradients.exchange_options import ExchangeOptions, is_whole
from byteps.common.gradients.gradient_exchange import gradient_call
from byteps.common.operations.call import Call
from byteps.common.session.process_sets import has_others
from byteps.tensorflow.agreement import after, agreed, described, gate_of
from byteps.tensorflow.exchange import as_tensor, named, number, same
from byteps.tensorflow.sparse import allreduce_slices, as_dense


def checked_groups(groups: Any, num_groups: int) -> Any:
    """Return what groups the user wants: None, a number of them, or lists of variables."""
    if num_groups:
        warnings.warn(
            "Parameter `num_groups` has been replaced by `groups`.",
            DeprecationWarning,
            stacklevel=3,
        )
        groups = num_groups
    if groups is None:
        return None
    if is_whole(groups):
        if groups <= 0:
            raise ValueError(f"groups should be a number above 0; it is {groups}.")
        return int(groups)
    if not isinstance(groups, (list, tuple)) or not all(
        isinstance(group, (list, tuple)) for group in groups
    ):
        raise ValueError("groups should be a number above 0, or lists of variables.")
    return groups


class VariableSet:
    """Variables, known by identity: those of TensorFlow have no equality that a set can use."""

    def __init__(self) -> None:
        self._known: dict[int, Any] = {}

    def add(self, variable: Any) -> None:
        """Put a variable into the set."""
        self._known[id(variable)] = variable

    def __contains__(self, variable: object) -> bool:
        return id(variable) in self._known


class GradientCombiner:
    """Combines gradients over all ranks, as the user of a tape or optimizer has chosen."""

    def __init__(
        self,
        options: ExchangeOptions,
        name: str,
        groups: Any = None,
        scale_local_gradients: bool = True,
    ) -> None:
        """Combine under names that begin with `name`."""
        options.check()
        self._options = options
        self._name = name
        self._groups = groups
        self._scales_local = scale_local_gradients
        self.local = VariableSet()  # whose gradients stay on this rank

    def combine(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Return the combinations; None stays None.

        A rank that has gradients of other variables is a MismatchError on every rank.
        """
        options = self._options
        results = self.as_chosen(gradients)
        if not has_others(options.process_set):
            return results
        there = [i for i, gradient in enumerate(results) if gradient is not None]
        shared = [i for i in there if variables[i] not in self.local]
        for i in there:
            if variables[i] in self.local:
                results[i] = self._local(results[i])
        if not shared:
            return results
        before = self._agreed(shared, results)
        with after(before):
            dense: list[int] = []
            for i in shared:
                gradient = results[i]
                if isinstance(gradient, tf.IndexedSlices):
                    # Priorities are for tensors that servers add up; these are gathered.
                    results[i] = allreduce_slices(
                        gradient, options.op, self._named(i, gradient.values), "Gradient",
                        process_set=options.process_set,
                    )  # fmt: skip
                else:
                    dense.append(i)
            for places in self._units(dense, variables):
                found = self._exchange(places, results, gate_of(before))
                for i, result in zip(places, found, strict=True):
                    results[i] = result
        return results

    def _agreed(self, places: Sequence[int], gradients: Sequence[Any]) -> Any:
        """Let the ranks compare which gradients they have."""
        call = gradient_call(self._options, "", 0)
        call.name = named(f"{self._name}.gradients", "", gradients[places[0]])
        kinds = [described(gradients[i]) for i in places]
        return agreed(call, kinds, "of sources " + " ".join(map(str, places)))

    def as_chosen(self, gradients: Sequence[Any]) -> list[Any]:
        """Return the gradients, those of rows as tensors if the user wants that."""
        if self._options.sparse_as_dense:
            return [as_dense(one) for one in gradients]
        return list(gradients)

    def _local(self, gradient: Any) -> Any:
        if not self._scales_local:
            return gradient
        size = number("size", self._options.process_set)
        if isinstance(gradient, tf.IndexedSlices):
            values = gradient.values / tf.cast(size, gradient.values.dtype)
            return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        return gradient / tf.cast(size, gradient.dtype)

    def _units(self, places: list[int], variables: Sequence[Any]) -> list[list[int]]:
        """Return the gradients that travel together. Eager ones all do: each would wait for the one
        before."""
        if tf.executing_eagerly():
            return [places] if places else []
        if self._groups is None:
            return [[i] for i in places]
        if isinstance(self._groups, int):
            count = min(self._groups, len(places))
            return [
                places[len(places) * i // count : len(places) * (i + 1) // count]
                for i in range(count)
            ]
        group_of = {id(one): number for number, group in enumerate(self._groups) for one in group}
        units: dict[Any, list[int]] = {}
        for i in places:
            units.setdefault(group_of.get(id(variables[i]), f"alone {i}"), []).append(i)
        return list(units.values())

    def _exchange(self, places: Sequence[int], gradients: Sequence[Any], gate: Any) -> list[Any]:
        compression = self._options.compression
        calls, sent, contexts = [], [], []
        for i in places:
            tensor, context = compression.compress(tf.convert_to_tensor(gradients[i]))
            call = self._call(i, tensor)
            calls.append(call)
            sent.append(as_tensor(tensor, call))
            contexts.append(context)
        results = same(calls, sent, gate)
        return [
            compression.decompress(one, context)
            for one, context in zip(results, contexts, strict=True)
        ]

    def _call(self, place: int, tensor: Any) -> Call:
        # The first variable of a model is needed first in the next forward.
        call = gradient_call(self._options, "", -place)
        call.name = self._named(place, tensor)
        return call

    def _named(self, place: int, tensor: Any) -> str | None:
        return named(f"{self._name}.grad_{place}", "", tensor)
