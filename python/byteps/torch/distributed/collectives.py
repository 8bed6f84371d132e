"""The collectives of a group as flights: what they send, and what they do with what comes back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from byteps.common.errors import InvalidArgumentError, MismatchError
from byteps.common.session import Request
from byteps.common.types import DataType, Operation
from byteps.torch.distributed.channel import Channel
from byteps.torch.distributed.flight import Flight
from byteps.torch.distributed.memory import (
    Finish,
    as_bytes,
    as_numbers,
    bring,
    room_for,
    source_of,
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
    ) -> Flight:
        """Combine host memory over all ranks in place. `word` is torch's name for the reduction."""
        if word in _BITWISE:
            return self._combine_bits(kind, word, memories, finish, limit_s)
        operation = _OPERATIONS.get(word)
        if operation is None:
            raise InvalidArgumentError(f"The backend 'byteps' has no reduction {word}.")
        requests = []
        for memory in memories:
            numbers, dtype = as_numbers(memory, operation)
            pointer = numbers.data_ptr()
            requests.append(Request("", operation, dtype, tuple(numbers.shape), pointer, pointer))
        signature = f"{kind} {word} {_describe(memories)}"
        return self.channel.start(signature, requests, lambda _: finish(), memories, limit_s)

    def _combine_bits(
        self, kind: str, word: str, memories: list[Tensor], finish: Finish, limit_s: float
    ) -> Flight:
        """Do `combine` for an operation that the library lacks: gather, combine here."""
        size = self.channel.size
        gathered = [[torch.empty_like(memory) for _ in range(size)] for memory in memories]

        def combine_here() -> object:
            for memory, parts in zip(memories, gathered, strict=True):
                whole = parts[0]
                for part in parts[1:]:
                    whole = _BITWISE[word](whole, part)
                memory.copy_(whole)
            return finish()

        return self.allgather(f"{kind} {word}", gathered, memories, combine_here, limit_s)

    def broadcast(
        self, kind: str, root: int, tensors: list[Tensor], finish: Finish, limit_s: float
    ) -> Flight:
        """Overwrite `tensors` with the root's."""
        is_root = self.channel.rank == root
        if len(tensors) == 1 and _has_free_length(tensors[0]):
            return self._broadcast_object(kind, root, tensors[0], finish, limit_s)
        requests, brings, memories = [], [], []
        for tensor in tensors:
            memory, bring_back = room_for(tensor)
            if is_root and memory.data_ptr() != tensor.data_ptr():
                memory.copy_(source_of(tensor))
            data = as_bytes(memory)
            requests.append(
                Request(
                    "", Operation.BROADCAST, DataType.UINT8, (data.numel(),),
                    data.data_ptr(), data.data_ptr(), self.channel.members.ranks[root],
                )
            )  # fmt: skip
            brings.append(bring_back)
            memories.append(memory)

        def land(flight: Flight) -> object:
            for bring_back in brings:
                bring_back()
            return finish()

        signature = f"{kind} from {root} {_describe(tensors)}"
        return self.channel.start(signature, requests, land, (tensors, memories), limit_s)

    def _broadcast_object(
        self, kind: str, root: int, tensor: Tensor, finish: Finish, limit_s: float
    ) -> Flight:
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
    ) -> Flight:
        """Join each input over the ranks into its output: one tensor, or one for each rank."""
        requests, sources = [], []
        for tensor in inputs:
            data = as_bytes(source_of(tensor))
            sources.append(data)
            requests.append(_gathering(data))
        signature = f"{kind} {_describe_gathering(inputs, outputs)}"

        def land(flight: Flight) -> object:
            for handle, output in zip(flight.handles, outputs, strict=True):
                _take_gathered(flight, handle, output, signature)
            return finish()

        return self.channel.start(signature, requests, land, (sources, outputs), limit_s)

    def reduce_scatter(
        self, word: str, output: Tensor, whole: Tensor, sizes: list[int], limit_s: float
    ) -> Flight:
        """Combine `whole` over all ranks; this rank keeps its part of the flattened result."""
        rank = self.channel.rank
        memory = own_copy(whole.reshape(-1))
        mine = memory.narrow(0, sum(sizes[:rank]), sizes[rank])

        def finish() -> object:
            bring(mine, output)
            return [output]

        return self.combine("reduce_scatter", word, [memory], finish, limit_s)

    def alltoall(
        self, outputs: list[Tensor], inputs: list[Tensor], finish: Finish, limit_s: float
    ) -> Flight:
        """Send part r to rank r: everybody gets all shares, with their lengths in front."""
        parts = [as_bytes(source_of(part)) for part in inputs]
        lengths = torch.tensor([part.numel() for part in parts], dtype=torch.int64)
        share = torch.cat([as_bytes(lengths), *parts])

        def land(flight: Flight) -> object:
            size_bytes, _, _ = flight.session.result(flight.handles[0])
            joined = torch.empty(size_bytes, dtype=torch.uint8)
            flight.session.copy_result(flight.handles[0], joined.data_ptr(), size_bytes)
            _take_own_parts(joined, outputs, self.channel.rank)
            return finish()

        signature = f"all_to_all {_type_name(inputs[0])}"
        return self.channel.start(signature, [_gathering(share)], land, share, limit_s)

    def barrier(self, limit_s: float) -> Flight:
        """Wait for all ranks."""
        request = Request("", Operation.BARRIER, DataType.UINT8, (), 0, 0)
        return self.channel.start("barrier", [request], lambda _: [], None, limit_s)


def own_copy(tensor: Tensor) -> Tensor:
    """Return contiguous host memory with the tensor's values that is nobody else's."""
    source = source_of(tensor)
    return source.clone() if source.data_ptr() == tensor.data_ptr() else source


def _gathering(data: Tensor) -> Request:
    return Request("", Operation.ALLGATHER, DataType.UINT8, (data.numel(),), data.data_ptr(), 0)


def _take_gathered(
    flight: Flight, handle: int, output: Tensor | list[Tensor], signature: str
) -> None:
    """Copy what an allgather brought to its output."""
    size_bytes, _, _ = flight.session.result(handle)
    parts = [output] if isinstance(output, Tensor) else output
    expected = sum(part.numel() * part.element_size() for part in parts)
    if size_bytes != expected:
        raise MismatchError(
            f"{signature}: the tensors of all ranks together have {size_bytes} bytes, there is "
            f"room for {expected} here. All ranks must give tensors of the same size."
        )
    memory, bring_back = (
        room_for(parts[0])
        if len(parts) == 1
        else (torch.empty(size_bytes, dtype=torch.uint8), None)
    )
    flight.session.copy_result(handle, memory.data_ptr(), size_bytes)
    if bring_back is not None:
        bring_back()
        return
    offset = 0
    for part in parts:
        end = offset + part.numel() * part.element_size()
        bring(_typed(memory[offset:end], part.dtype), part)
        offset = end


def _take_own_parts(joined: Tensor, outputs: list[Tensor], rank: int) -> None:
    """Take this rank's part out of the share of each rank."""
    count = len(outputs)
    offset = 0
    for sender, output in enumerate(outputs):
        lengths = _typed(joined[offset : offset + 8 * count], torch.int64).tolist()
        begin = offset + 8 * count + sum(lengths[:rank])
        expected = output.numel() * output.element_size()
        if lengths[rank] != expected:
            raise MismatchError(
                f"all_to_all: rank {sender} of the group sends {lengths[rank]} bytes to rank "
                f"{rank}, which expects {expected}. The splits must agree."
            )
        bring(_typed(joined[begin : begin + expected], output.dtype), output)
        offset += 8 * count + sum(lengths)


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
        return _describe(inputs)
    return _describe(parts)


def _type_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _describe(tensors: Sequence[Tensor]) -> str:
    shapes = ["[any]" if _has_free_length(t) else str(list(t.shape)) for t in tensors]
    texts = [f"{_type_name(t)} {shape}" for t, shape in zip(tensors, shapes, strict=True)]
    return ", ".join(texts)
