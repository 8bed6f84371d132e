"""Calls through byteps.numpy and byteps.torch, which have the same functions."""

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


class HandleDriver(Driver):
    """A driver for modules whose functions have forms with handles, and forms in place."""

    module: Any

    def tensor(self, view: Array, dtype: str) -> Any:
        """Return a tensor of the framework with the memory of an array."""
        raise NotImplementedError

    def array(self, tensor: Any, dtype: str) -> Array:
        """Return an array with the values of a tensor."""
        raise NotImplementedError

    def begin(self) -> None:
        """Join the job."""
        self.module.init()
        self.rank, self.size = self.module.rank(), self.module.size()
        self._sets: dict[tuple[int, ...], Any] = {}

    def open_sets(self, sets: Sequence[tuple[int, ...]]) -> None:
        """Register process sets."""
        self._sets = module_sets(self.module, sets)

    def close_sets(self) -> None:
        """Remove them."""
        remove_sets(self.module, self._sets)

    def run(self, case: Case, given: dict[int, Given]) -> dict[int, Got]:
        """Make the calls: all with handles, or one after the other."""
        started: dict[int, tuple[Any, list[Any]]] = {}
        found: dict[int, Got] = {}
        for index in case.orders[self.rank]:
            started[index] = self._start(given[index])
            if not case.is_together:
                found[index] = self._finish(given[index], case.there(index), *started[index])
        if case.leaving:
            last = self.module.join()
            assert case.leaving[last] == max(case.leaving), (last, case.leaving)
        if case.is_together:
            for index in case.waits[self.rank]:
                found[index] = self._finish(given[index], case.there(index), *started[index])
        return found

    def meet(self) -> None:
        """Wait for all ranks."""
        self.module.barrier()

    def end(self) -> None:
        """Leave the job."""
        self.module.shutdown()

    def _start(self, given: Given) -> tuple[Any, list[Any]]:
        """Begin a call; return its handle or result, and the tensors that were given."""
        call = given.call
        options: dict[str, Any] = {"name": call.name}
        if call.kind != "push_pull":
            options["process_set"] = self._sets[call.ranks]
        if call.kind == "barrier":
            self.module.barrier(**options)
            return None, []
        if call.kind == "broadcast_object":
            mine = given.value if self.rank == call.root else None
            return self.module.broadcast_object(mine, call.root, **options), []
        if call.kind == "allgather_object":
            return self.module.allgather_object(given.value, **options), []
        tensors = [
            self.tensor(laid.view, tensor.dtype)
            for laid, tensor in zip(given.laid, call.tensors, strict=True)
        ]
        options |= self._options(call)
        function = getattr(self.module, _function_name(call))
        return function(tensors if call.is_group else tensors[0], **options), tensors

    def _options(self, call: Call) -> dict[str, Any]:
        if call.kind == "push_pull":
            return {"average": call.op == "average", "priority": call.priority}
        if call.kind == "broadcast":
            return {"root_rank": call.root}
        if call.kind == "alltoall":
            place = call.ranks.index(self.rank)
            return {"splits": list(call.splits[place])} if call.splits else {}
        if call.kind == "allgather":
            return {}
        return {"op": op_of(self.module, call), **factors_of(call)}

    def _finish(self, given: Given, there: Sequence[int], result: Any, tensors: list[Any]) -> Got:
        call = given.call
        if call.kind.endswith("_object"):
            return Got(value=result)
        if call.kind == "barrier":
            return Got()
        if call.has_handle:
            if call.variant == 0:
                self.module.poll(result)
            handle = result
            result = self.module.synchronize(handle)
            # A sum of a machine cannot tell its ranks apart: it counts those that have joined.
            members = set(handle.members)
            assert set(there) <= members <= set(call.ranks), (members, there)
        counts = None
        if call.kind == "alltoall" and (call.has_handle or call.splits):
            result, numbers = result
            counts = [int(number) for number in numbers] if call.splits else None
        results = list(result) if call.is_group else [result]
        if call.in_place:
            assert all(a is b for a, b in zip(results, tensors, strict=True)), "not in place"
        arrays = [
            np.array(self.array(one, tensor.dtype))
            for one, tensor in zip(results, call.tensors, strict=True)
        ]
        return Got(arrays, counts)


def _function_name(call: Call) -> str:
    group = "grouped_" if call.is_group else ""
    handle = "_async" if call.has_handle else ""
    if call.kind == "push_pull":
        return f"push_pull{handle}" + ("_inplace" if call.in_place else "")
    return f"{group}{call.kind}{handle}" + ("_" if call.in_place else "")


class NumpyDriver(HandleDriver):
    """Calls through byteps.numpy."""

    def __init__(self) -> None:
        super().__init__()
        import ml_dtypes

        import byteps.numpy

        self.module = byteps.numpy
        self._bfloat16 = np.dtype(ml_dtypes.bfloat16)

    def tensor(self, view: Array, dtype: str) -> Any:
        """Return the array itself."""
        return view.view(self._bfloat16) if dtype == "bfloat16" else view

    def array(self, tensor: Any, dtype: str) -> Array:
        """Return a result in this machine's byte order."""
        assert isinstance(tensor, np.ndarray), type(tensor)
        assert tensor.dtype.name == dtype, (tensor.dtype, dtype)
        if dtype == "bfloat16":
            return tensor.view(np.uint16)
        return tensor.astype(tensor.dtype.newbyteorder("="), copy=False)


class TorchDriver(HandleDriver):
    """Calls through byteps.torch."""

    def __init__(self) -> None:
        super().__init__()
        import torch

        import byteps.torch

        torch.set_num_threads(1)
        self.module = byteps.torch

    def tensor(self, view: Array, dtype: str) -> Any:
        """Return a tensor with the memory of the array."""
        return as_torch(view, dtype)

    def array(self, tensor: Any, dtype: str) -> Array:
        """Return the values of a result."""
        return of_torch(tensor, dtype)


def as_torch(view: Array, dtype: str) -> Any:
    """Return a tensor of torch with the memory of an array."""
    import torch

    if dtype == "bfloat16":
        return torch.from_numpy(view.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(view)


def of_torch(tensor: Any, dtype: str) -> Array:
    """Return an array with the values of a tensor of torch."""
    import torch

    assert str(tensor.dtype) == f"torch.{dtype}", (tensor.dtype, dtype)
    held = tensor.detach()
    if dtype == "bfloat16":
        return held.view(torch.int16).numpy().view(np.uint16)
    return held.numpy()
