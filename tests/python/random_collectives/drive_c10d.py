"""Calls through torch.distributed with the backend byteps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from random_collectives.cases import Call, Case
from random_collectives.drive_handles import as_torch, of_torch
from random_collectives.driver import Driver, Given, Got

Finish = Callable[[], Got]


class C10dDriver(Driver):
    """A driver for torch.distributed. `variant` chooses among functions that do the same."""

    def __init__(self) -> None:
        super().__init__()
        import torch
        import torch.distributed

        import byteps.torch

        torch.set_num_threads(1)
        self._torch = torch
        self._dist = torch.distributed
        self._leave = byteps.torch.shutdown
        self._groups: dict[tuple[int, ...], Any] = {}

    def begin(self) -> None:
        """Join the job."""
        self._dist.init_process_group("byteps")
        self.rank, self.size = self._dist.get_rank(), self._dist.get_world_size()

    def open_sets(self, sets: Sequence[tuple[int, ...]]) -> None:
        """Make groups."""
        self._groups = {ranks: self._dist.new_group(list(ranks)) for ranks in sets}
        self._groups[tuple(range(self.size))] = self._dist.group.WORLD

    def close_sets(self) -> None:
        """End the groups that this rank is in."""
        for ranks, group in self._groups.items():
            if self.rank in ranks and len(ranks) < self.size:
                self._dist.destroy_process_group(group)

    def meet(self) -> None:
        """Wait for all ranks."""
        self._dist.barrier()

    def end(self) -> None:
        """Leave the job."""
        self._dist.destroy_process_group()
        self._leave()

    def run(self, case: Case, given: dict[int, Given]) -> dict[int, Got]:
        """Make the calls: all at once, or one after the other."""
        started: dict[int, Finish] = {}
        found: dict[int, Got] = {}
        for index in case.orders[self.rank]:
            started[index] = self._start(given[index])
            if not case.is_together:
                found[index] = started[index]()
        if case.is_together:
            for index in case.waits[self.rank]:
                found[index] = started[index]()
        return found

    def _start(self, given: Given) -> Finish:
        """Begin a call; return what waits for it and has its result."""
        call = given.call
        group = self._groups[call.ranks]
        if call.kind == "barrier":
            self._dist.barrier(group=group)
            return Got
        if call.kind.endswith("_object"):
            value = self._exchange_objects(given, group)
            return lambda: Got(value=value)
        tensor = as_torch(given.laid[0].view, call.tensors[0].dtype)
        work, results = getattr(self, f"_{call.kind}")(given, tensor, group)

        def finish() -> Got:
            if call.has_handle:
                for one in work if isinstance(work, list) else [work]:
                    one.wait()
            return self._got(call, results)

        return finish

    def _got(self, call: Call, results: Sequence[Any]) -> Got:
        """Return the results as one array, as the oracle has them."""
        dtype = call.tensors[0].dtype
        arrays = [np.array(of_torch(one, dtype)) for one in results]
        if call.kind == "allgather":
            return Got([np.concatenate([np.atleast_1d(a) for a in arrays])])
        if call.kind == "gather":
            kind = np.uint16 if dtype == "bfloat16" else np.dtype(dtype)
            return Got([np.stack(arrays) if arrays else np.empty(0, kind)])
        counts = None
        if call.splits:
            place = call.ranks.index(self.rank)
            counts = [row[place] for row in call.splits]
        return Got(arrays, counts)

    def _exchange_objects(self, given: Given, group: Any) -> object:
        call = given.call
        if call.kind == "allgather_object":
            objects: list[object] = [None] * len(call.ranks)
            self._dist.all_gather_object(objects, given.value, group=group)
            return objects
        objects = [given.value if self.rank == call.root else None]
        self._dist.broadcast_object_list(objects, src=call.root, group=group)
        return objects[0]

    # A method for each kind: what can be waited for, and the tensors of the result.

    def _op(self, call: Call) -> Any:
        names = {"average": "AVG", "product": "PRODUCT"}
        return getattr(self._dist.ReduceOp, names.get(call.op, call.op.upper()))

    def _allreduce(self, given: Given, tensor: Any, group: Any) -> tuple[Any, list[Any]]:
        call = given.call
        work = self._dist.all_reduce(tensor, self._op(call), group, async_op=call.has_handle)
        return work, [tensor]

    def _reduce(self, given: Given, tensor: Any, group: Any) -> tuple[Any, list[Any]]:
        call = given.call
        options = (call.root, self._op(call), group)
        return self._dist.reduce(tensor, *options, async_op=call.has_handle), [tensor]

    def _broadcast(self, given: Given, tensor: Any, group: Any) -> tuple[Any, list[Any]]:
        call = given.call
        work = self._dist.broadcast(tensor, call.root, group, async_op=call.has_handle)
        return work, [tensor]

    def _allgather(self, given: Given, tensor: Any, group: Any) -> tuple[Any, list[Any]]:
        call = given.call
        shapes = call.tensors[0].shapes
        is_even = len(set(shapes)) == 1 and tensor.dim() > 0
        if is_even and call.variant % 2:
            whole = tensor.new_empty((len(shapes) * shapes[0][0], *shapes[0][1:]))
            options = {"group": group, "async_op": call.has_handle}
            return self._dist.all_gather_into_tensor(whole, tensor, **options), [whole]
        parts = [tensor.new_empty(shape) for shape in shapes]
        return self._dist.all_gather(parts, tensor, group, async_op=call.has_handle), parts

    def _gather(self, given: Given, tensor: Any, group: Any) -> tuple[Any, list[Any]]:
        call = given.call
        is_root = self.rank == call.root
        parts = [self._torch.empty_like(tensor) for _ in call.ranks] if is_root else []
        options = {"dst": call.root, "group": group, "async_op": call.has_handle}
        return self._dist.gather(tensor, parts if is_root else None, **options), parts

    def _scatter(self, given: Given, tensor: Any, group: Any) -> tuple[Any, list[Any]]:
        call = given.call
        dtype = call.tensors[0].dtype
        parts = [as_torch(part.copy(), dtype) for part in given.parts]
        result = self._torch.empty_like(tensor)
        options = {"src": call.root, "group": group, "async_op": call.has_handle}
        return self._dist.scatter(result, parts or None, **options), [result]

    def _alltoall(self, given: Given, tensor: Any, group: Any) -> tuple[Any, list[Any]]:
        call = given.call
        place, count = call.ranks.index(self.rank), len(call.ranks)
        sends = list(call.splits[place]) if call.splits else [tensor.shape[0] // count] * count
        takes = [row[place] for row in call.splits] if call.splits else sends
        result = tensor.new_empty((sum(takes), *tensor.shape[1:]))
        if call.variant % 3 == 0:
            inputs = [part.contiguous() for part in tensor.split(sends)]
            outputs = list(result.split(takes))
            work = self._dist.all_to_all(outputs, inputs, group, async_op=call.has_handle)
            return work, [result]
        splits = (takes, sends) if call.splits or call.variant % 2 else (None, None)
        options = {"group": group, "async_op": call.has_handle}
        return self._dist.all_to_all_single(result, tensor, *splits, **options), [result]

    def _reducescatter(self, given: Given, tensor: Any, group: Any) -> tuple[Any, list[Any]]:
        call = given.call
        place, count, rows = call.ranks.index(self.rank), len(call.ranks), tensor.shape[0]
        options = {"op": self._op(call), "group": group, "async_op": call.has_handle}
        if rows % count == 0 and call.variant % 2:
            result = tensor.new_empty((rows // count, *tensor.shape[1:]))
            return self._dist.reduce_scatter_tensor(result, tensor, **options), [result]
        parts = list(self._torch.tensor_split(tensor, count))
        result = self._torch.empty_like(parts[place])
        return self._dist.reduce_scatter(result, parts, **options), [result]

    def _send(self, given: Given, tensor: Any, group: Any) -> tuple[Any, list[Any]]:
        call = given.call
        place = call.ranks.index(self.rank)
        after, before = call.ranks[(place + 1) % len(call.ranks)], call.ranks[place - 1]
        result = self._torch.empty_like(tensor)
        tag = call.variant
        works = [
            self._dist.isend(tensor, after, group, tag),
            self._dist.irecv(result, before, group, tag),
        ]
        if not call.has_handle:
            for work in works:
                work.wait()
        return works, [result]
