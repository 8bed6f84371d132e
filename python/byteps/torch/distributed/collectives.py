"""The collectives of a group as flights: what they send, and what they do with what comes back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from byteps.common.errors import InvalidArgumentError, MismatchError
from byteps.common.operations.call import Call, request_of
from byteps.common.request import Request
from byteps.common.session.flight import Flight
from byteps.common.session.open_operations import OpenOperation
from byteps.common.types import DataType, Operation
from byteps.torch.devices import place_of
from byteps.torch.distributed.channel import Channel
from byteps.torch.distributed.flight import FutureFlight
from byteps.torch.memory import (
    as_bytes,
    as_numbers,
    bring,
    host_room_for,
    new_memory,
    own_copy,
    reached_memory,
    room_for,
    type_name,
)

_OPERATIONS = {
    "SUM": Operation.SUM,
    "PREMUL_SUM": Operation.SUM,
    "AVG": Operation.AVERAGE,
    "MIN": Operation.MIN,
    "MAX": Operation.MAX,
    "PRODUCT": Operation.PRODUCT,
}
_BITWISE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or,
    "BXOR": torch.bitwise_xor,
}
# Runs when the result is in the memory that the collective was given; returns the result.
Finish = Callable[[], object]

_NOTHING = new_memory((0,), torch.uint8)


class Collectives:
    """Starts collectives on a channel. `root` and `rank` are places in the group."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def combine(
        self,
        kind: str,
        word: str,
        memories: list[Tensor],
        finish: Finish,
        limit_s: float,
    ) -> FutureFlight:
        """Combine memory over all ranks in place. `word` is torch's name for the reduction."""
        if word in _BITWISE:
            return self._combine_bits(kind, word, memories, finish, limit_s)
        operation = _OPERATIONS.get(word)
        if operation is None:
            raise InvalidArgumentError(f"The backend 'byteps' has no reduction {word}.")
        requests = []
        for memory in memories:
            numbers, dtype = as_numbers(memory, operation)
            shape = tuple(numbers.shape)
            requests.append(self._request(Call(operation), dtype, shape, numbers, numbers))
        signature = f"{kind} {word} {describe(memories)}"
        return self.channel.start(signature, requests, lambda _: finish(), memories, limit_s)

    def _combine_bits(
        self, kind: str, word: str, memories: list[Tensor], finish: Finish, limit_s: float
    ) -> FutureFlight:
        """Do `combine` for an operation that the library lacks: gather, combine here."""
        size = self.channel.size
        gathered = [[torch.empty_like(memory) for _ in range(size)] for memory in memories]

        def combine_here() -> object:
            for memory, parts in zip(memories, gathered, strict=True):
                whole = parts[0]
                for part in parts[1:]:
                    whole = _BITWISE[word](whole, part)
                bring(whole, memory)
            return finish()

        return self.allgather(f"{kind} {word}", gathered, memories, combine_here, limit_s)

    def broadcast(
        self, kind: str, root: int, tensors: list[Tensor], finish: Finish, limit_s: float
    ) -> FutureFlight:
        """Overwrite `tensors` with the root's."""
        is_root = self.channel.rank == root
        if len(tensors) == 1 and _has_free_length(tensors[0]):
            return self._broadcast_object(kind, root, tensors[0], finish, limit_s)
        requests, brings, memories = [], [], []
        for tensor in tensors:
            memory, bring_back = room_for(tensor)
            if is_root and memory.data_ptr() != tensor.data_ptr():
                memory.copy_(reached_memory(tensor))
            data = as_bytes(memory)
            call = Call(Operation.BROADCAST, root_rank=self.channel.ranks[root])
            requests.append(self._request(call, DataType.UINT8, (data.numel(),), data, data))
            brings.append(bring_back)
            memories.append(memory)

        def land(flight: Flight) -> object:
            for bring_back in brings:
                bring_back()
            return finish()

        signature = f"{kind} from {root} {describe(tensors)}"
        return self.channel.start(signature, requests, land, (tensors, memories), limit_s)

    def _broadcast_object(
        self, kind: str, root: int, tensor: Tensor, finish: Finish, limit_s: float
    ) -> FutureFlight:
        """Broadcast bytes under a name for all lengths: only the root has rows to gather."""
        own = tensor if self.channel.rank == root else tensor[:0]
        return self.allgather(f"{kind} from {root}", [tensor], [own], finish, limit_s)

    def allgather(
        self,
        kind: str,
        outputs: Sequence[Tensor | list[Tensor]],
        inputs: list[Tensor],
        finish: Finish,
        limit_s: float,
    ) -> FutureFlight:
        """Join each input over the ranks into its output: one tensor, or one for each rank."""
        requests, sources = [], []
        for tensor in inputs:
            data = as_bytes(reached_memory(tensor))
            sources.append(data)
            call, shape = Call(Operation.ALLGATHER), (data.numel(),)
            requests.append(self._request(call, DataType.UINT8, shape, data))
        signature = f"{kind} {_describe_gathering(inputs, outputs)}"

        def land(flight: Flight) -> object:
            for operation, output in zip(flight.operations, outputs, strict=True):
                _take_gathered(flight, operation, output, signature)
            return finish()

        return self.channel.start(signature, requests, land, (sources, outputs), limit_s)

    def reduce_scatter(
        self, word: str, output: Tensor, whole: Tensor, sizes: list[int], limit_s: float
    ) -> FutureFlight:
        """Combine `whole` over all ranks; this rank gets its part of the flattened result."""
        operation = _OPERATIONS.get(word)
        if operation is None or len(set(sizes)) > 1:
            return self._combine_and_cut(word, output, whole, sizes, limit_s)
        source = reached_memory(whole).view(self.channel.size, sizes[0])
        memory, bring_back = room_for(output)
        numbers, dtype = as_numbers(source, operation)
        call = Call(Operation.REDUCESCATTER, combine=operation)
        request = self._request(call, dtype, tuple(numbers.shape), numbers, memory)

        def land(flight: Flight) -> object:
            bring_back()
            return [output]

        signature = f"reduce_scatter {word} {describe([source])}"
        return self.channel.start(signature, [request], land, (source, memory), limit_s)

    def _combine_and_cut(
        self, word: str, output: Tensor, whole: Tensor, sizes: list[int], limit_s: float
    ) -> FutureFlight:
        """Do `reduce_scatter` where the library cannot: parts of different sizes, bits."""
        rank = self.channel.rank
        memory = own_copy(whole.reshape(-1))
        mine = memory.narrow(0, sum(sizes[:rank]), sizes[rank])

        def finish() -> object:
            bring(mine, output)
            return [output]

        return self.combine("reduce_scatter", word, [memory], finish, limit_s)

    def alltoall(
        self,
        kind: str,
        outputs: Sequence[Tensor | None],
        inputs: Sequence[Tensor | None],
        finish: Finish,
        limit_s: float,
    ) -> FutureFlight:
        """Send input r to rank r, and take output r from it; None is nothing."""
        parts = [_NOTHING if part is None else as_bytes(reached_memory(part)) for part in inputs]
        splits = [part.numel() for part in parts]
        filled = [part for part in parts if part.numel()]
        data = filled[0] if len(filled) == 1 else torch.cat(filled or [_NOTHING])
        call, shape = Call(Operation.ALLTOALL, splits=splits), (data.numel(),)
        request = self._request(call, DataType.UINT8, shape, data)

        def land(flight: Flight) -> object:
            _take_parts(flight, outputs, kind)
            return finish()

        return self.channel.start(kind, [request], land, (data, outputs), limit_s)

    def barrier(self, limit_s: float) -> FutureFlight:
        """Wait for all ranks."""
        request = self._request(Call(Operation.BARRIER), DataType.UINT8, ())
        return self.channel.start("barrier", [request], lambda _: [], None, limit_s)

    def _request(
        self,
        call: Call,
        dtype: DataType,
        shape: Sequence[int],
        source: Tensor = _NOTHING,
        target: Tensor = _NOTHING,
    ) -> Request:
        """Return the request of a call, to which the channel gives a name and its ranks."""
        places = (source.data_ptr(), target.data_ptr(), place_of(source))
        return request_of(self.channel.session, call, "", dtype, shape, *places)


def _take_gathered(
    flight: Flight, operation: OpenOperation, output: Tensor | list[Tensor], signature: str
) -> None:
    """Copy what an allgather brought to its output."""
    size_bytes, _, _ = flight.session.result(operation)
    parts = [output] if isinstance(output, Tensor) else output
    expected = sum(part.numel() * part.element_size() for part in parts)
    if size_bytes != expected:
        raise MismatchError(
            f"{signature}: the tensors of all ranks together have {size_bytes} bytes, there is "
            f"room for {expected} here. All ranks must give tensors of the same size."
        )
    memory, bring_back = (
        host_room_for(parts[0])
        if len(parts) == 1
        else (new_memory((size_bytes,), torch.uint8), None)
    )
    flight.session.copy_result(operation, memory.data_ptr(), size_bytes)
    if bring_back is not None:
        bring_back()
        return
    offset = 0
    for part in parts:
        end = offset + part.numel() * part.element_size()
        bring(_typed(memory[offset:end], part.dtype), part)
        offset = end


def _take_parts(flight: Flight, outputs: Sequence[Tensor | None], kind: str) -> None:
    """Copy what an alltoall brought to the outputs, which say how much each rank should send."""
    operation = flight.operations[0]
    expected = [0 if o is None else o.numel() * o.element_size() for o in outputs]
    received = flight.session.received_splits(operation)
    if received != expected:
        raise MismatchError(
            f"{kind}: the ranks of the group send {received} bytes to this one, which expects "
            f"{expected}. What one rank sends and another takes must agree."
        )
    joined = new_memory((sum(received),), torch.uint8)
    flight.session.copy_result(operation, joined.data_ptr(), joined.numel())
    offset = 0
    for output, length in zip(outputs, received, strict=True):
        if output is not None:
            bring(_typed(joined[offset : offset + length], output.dtype), output)
        offset += length


def _typed(data: Tensor, dtype: torch.dtype) -> Tensor:
    """Return bytes as elements of a type, also where they are not aligned for it."""
    return data.clone().view(dtype)


def _has_free_length(tensor: Tensor) -> bool:
    """Return whether tensors like this are serialized objects: all their lengths share names."""
    return tensor.dtype == torch.uint8 and tensor.dim() == 1


def _describe_gathering(inputs: Sequence[Tensor], outputs: Sequence[Tensor | list[Tensor]]) -> str:
    """Describe what all ranks have in common: the inputs, or outputs that differ by rank."""
    parts = [p for o in outputs if not isinstance(o, Tensor) for p in o]
    if all(part.shape == parts[0].shape for part in parts):
        return describe(inputs)
    return describe(parts)


def describe(tensors: Sequence[Tensor]) -> str:
    """Return types and shapes: what must be equal on all ranks."""
    shapes = ["[any]" if _has_free_length(t) else str(list(t.shape)) for t in tensors]
    texts = [f"{type_name(t)} {shape}" for t, shape in zip(tensors, shapes, strict=True)]
    return ", ".join(texts)
