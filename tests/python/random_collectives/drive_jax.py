"""Calls through byteps.jax: outside jit, and all calls of a case in one compiled program."""

from __future__ import annotations

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


class JaxDriver(Driver):
    """A driver for JAX, with its types of 64 bits."""

    def __init__(self) -> None:
        super().__init__()
        import jax

        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_platforms", "cpu")
        import byteps.jax

        self._jax = jax
        self._bps = byteps.jax
        self._bfloat16 = np.dtype(jax.numpy.bfloat16)
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
        """Make the calls: started together, one after the other, or in one program."""
        order = case.orders[self.rank]
        inputs = [self._arrays(given[index]) for index in order]
        if case.is_compiled:

            def program(inputs: list[list[Any]]) -> list[Any]:
                pairs = zip(order, inputs, strict=True)
                return [self._call(given[index].call, mine) for index, mine in pairs]

            raw = dict(zip(order, self._jax.jit(program)(inputs), strict=True))
        elif case.is_together:
            started = {
                index: self._start(given[index].call, mine)
                for index, mine in zip(order, inputs, strict=True)
            }
            waits = case.waits[self.rank]
            raw = {index: self._bps.push_pull_done(started[index]) for index in waits}
        else:
            raw = {
                index: self._alone(given[index], mine)
                for index, mine in zip(order, inputs, strict=True)
            }
        if case.leaving:
            last = self._bps.join()
            assert case.leaving[last] == max(case.leaving), (last, case.leaving)
        return {index: self._got(given[index].call, raw[index]) for index in order}

    def _arrays(self, given: Given) -> list[Any]:
        arrays = []
        for laid, tensor in zip(given.laid, given.call.tensors, strict=True):
            view = laid.view.view(self._bfloat16) if tensor.dtype == "bfloat16" else laid.view
            arrays.append(self._jax.numpy.asarray(view))
        return arrays

    def _alone(self, given: Given, arrays: list[Any]) -> Any:
        call, bps = given.call, self._bps
        if call.kind in ("barrier", "broadcast_object", "allgather_object"):
            options = {"name": call.name, "process_set": self._sets[call.ranks]}
            if call.kind == "barrier":
                return bps.barrier(**options)
            if call.kind == "broadcast_object":
                return bps.broadcast_object(given.value, call.root, **options)
            return bps.allgather_object(given.value, **options)
        if call.has_handle:
            return bps.push_pull_done(self._start(call, arrays))
        return self._call(call, arrays)

    def _start(self, call: Call, arrays: list[Any]) -> Any:
        options = {"average": call.op == "average", "priority": call.priority}
        return self._bps.push_pull_start(arrays[0], name=call.name, **options)

    def _call(self, call: Call, arrays: list[Any]) -> Any:
        options: dict[str, Any] = {"name": call.name}
        if call.kind == "push_pull":
            options |= {"average": call.op == "average", "priority": call.priority}
        else:
            options["process_set"] = self._sets[call.ranks]
        if call.kind == "broadcast":
            options["root_rank"] = call.root
        elif call.kind == "alltoall" and call.splits:
            options["splits"] = list(call.splits[call.ranks.index(self.rank)])
        elif call.op and call.kind != "push_pull":
            options |= {"op": op_of(self._bps, call), **factors_of(call)}
        group = "grouped_" if call.is_group else ""
        function = getattr(self._bps, group + call.kind)
        return function(arrays if call.is_group else arrays[0], **options)

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
        is_used = call.variant == 0  # to compile a kernel takes longer than the rest of a case
        arrays = [self._array(one, tensor.dtype, is_used) for one, tensor in pairs]
        return Got(arrays, counts)

    def _array(self, result: Any, dtype: str, is_used: bool) -> Array:
        """Return the values of a result, which a compiled kernel may read before."""
        assert isinstance(result, self._jax.Array), type(result)
        assert result.dtype.name == dtype, (result.dtype, dtype)
        array: Array = np.array(self._jax.numpy.copy(result) if is_used else result)
        return array.view(np.uint16) if dtype == "bfloat16" else array
