"""Calls through byteps.tensorflow: eager, and all calls of a case in one tf.function."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from random_collectives.cases import Call, Case
from random_collectives.driver import (
    Driver,
    Given,
    Got,
    factors_of,
    module_sets,
    op_of,
    remove_sets,
)
from random_collectives.values import Array


class TensorflowDriver(Driver):
    """A driver for TensorFlow. Every result goes through kernels that look at its alignment."""

    def __init__(self) -> None:
        super().__init__()
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow

        import byteps.tensorflow

        self._tf = tensorflow
        self._bps = byteps.tensorflow
        self._bfloat16 = tensorflow.bfloat16.as_numpy_dtype
        self._sets: dict[tuple[int, ...], Any] = {}

    def begin(self) -> None:
        """Join the job."""
        self._bps.init()
        self.rank, self.size = self._bps.rank(), self._bps.size()

    def open_sets(self, sets: Sequence[tuple[int, ...]]) -> None:
        """Register process sets."""
        self._sets = module_sets(self._bps, sets)

    def close_sets(self) -> None:
        """Remove them."""
        remove_sets(self._bps, self._sets)

    def meet(self) -> None:
        """Wait for all ranks."""
        self._bps.barrier()

    def end(self) -> None:
        """Leave the job."""
        self._bps.shutdown()

    def run(self, case: Case, given: dict[int, Given]) -> dict[int, Got]:
        """Make the calls one after the other, or in one program."""
        order = case.orders[self.rank]
        tensors = {index: self._tensors(given[index]) for index in order}

        def program(inputs: dict[str, list[Any]]) -> dict[str, Any]:
            return {i: self._call(given[int(i)], mine) for i, mine in inputs.items()}

        texts = {str(index): tensors[index] for index in order}
        raw = self._tf.function(program)(texts) if case.is_compiled else program(texts)
        if case.leaving:
            last = int(self._bps.join())
            assert case.leaving[last] == max(case.leaving), (last, case.leaving)
        return {index: self._got(given[index].call, raw[str(index)]) for index in order}

    def _tensors(self, given: Given) -> list[Any]:
        views = []
        for laid, tensor in zip(given.laid, given.call.tensors, strict=True):
            view = laid.view.view(self._bfloat16) if tensor.dtype == "bfloat16" else laid.view
            views.append(self._tf.constant(view))
        return views

    def _call(self, given: Given, tensors: list[Any]) -> Any:
        call, bps = given.call, self._bps
        options: dict[str, Any] = {"name": call.name}
        if call.kind != "push_pull":
            options["process_set"] = self._sets[call.ranks]
        if call.kind == "barrier":
            return bps.barrier(**options)
        if call.kind == "broadcast_object":
            return bps.broadcast_object(given.value, call.root, **options)
        if call.kind == "allgather_object":
            return bps.allgather_object(given.value, **options)
        if call.kind == "push_pull":
            options |= {"average": call.op == "average", "priority": call.priority}
        elif call.kind == "broadcast":
            options["root_rank"] = call.root
        elif call.kind == "alltoall" and call.splits:
            options["splits"] = list(call.splits[call.ranks.index(self.rank)])
        elif call.op:
            options |= {"op": op_of(bps, call), **factors_of(call)}
        group = "grouped_" if call.is_group else ""
        function = getattr(bps, group + call.kind)
        return function(tensors if call.is_group else tensors[0], **options)

    def _got(self, call: Call, result: Any) -> Got:
        if call.kind == "barrier":
            return Got()
        if call.kind.endswith("_object"):
            return Got(value=result)
        counts = None
        if call.kind == "alltoall" and call.splits:
            result, numbers = result
            counts = [int(number) for number in numbers]
        results = list(result) if call.is_group else [result]
        pairs = zip(results, call.tensors, strict=True)
        return Got([self._array(one, tensor.dtype) for one, tensor in pairs], counts)

    def _array(self, result: Any, dtype: str) -> Array:
        """Return the values of a result, which kernels have read: they refuse odd addresses."""
        tf = self._tf
        assert result.dtype.name == dtype, (result.dtype, dtype)
        if result.shape.rank:
            cut = result.shape[0] // 2
            begin = [0] * result.shape.rank
            first = tf.slice(result, begin, [cut, *result.shape[1:]])
            begin[0] = cut
            result = tf.concat([first, tf.slice(result, begin, [-1] * len(begin))], 0)
        array: Array = np.array(result.numpy())
        return array.view(np.uint16) if dtype == "bfloat16" else array
