"""The process group of the backend `byteps`: the methods that torch.distributed calls.

torch has renamed some of them over time; both names are here.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from byteps.common.errors import InvalidArgumentError
from byteps.common.session import default
from byteps.torch.compile_guard import untraced
from byteps.torch.distributed import told_job
from byteps.torch.distributed.channel import Channel, agree_on_token, ranks_of_group
from byteps.torch.distributed.collectives import Collectives, describe
from byteps.torch.distributed.flight import FutureFlight
from byteps.torch.distributed.work import FlightWork, Unwaited
from byteps.torch.memory import bring, own_copy, reached_memory, room_for, type_name
from byteps.torch_registry import BACKEND


def refuse_options(options: Any, backend_options: object) -> None:
    """Raise for arguments of init_process_group and new_group that would have no effect."""
    if backend_options is not None:
        raise InvalidArgumentError(
            f"pg_options is a {type(backend_options).__name__}, and the backend 'byteps' has no "
            "options for a group. Leave pg_options out; 'bps run --print-config' shows the options "
            "of a job."
        )
    if getattr(options, "enable_reconfigure", False):
        raise InvalidArgumentError(
            "enable_reconfigure=True: the backend 'byteps' cannot make a group anew around a lost "
            "rank. Leave it out. With 'bps run --min-np N' a job goes on after the loss of a "
            "worker, with the operations of byteps.torch."
        )


class BytepsProcessGroup(dist.ProcessGroup):
    """A group of ranks. Collectives start at once and go on in the background."""

    def __init__(self, options: Any) -> None:
        """Take torch's options; joins the job if that was not done."""
        super().__init__(options.group_rank, options.group_size)
        rank, name = options.group_rank, str(options.group_id)
        listed = list(options.global_ranks_in_group)
        if listed in ([], list(range(dist.get_world_size() if listed else 0))):
            told_job.join(rank, options.group_size, options.store)
        else:
            default.init()
        session = default.current()
        ranks = ranks_of_group(session, rank, options.group_size, listed)
        token = agree_on_token(session, ranks, rank, options.store)
        self._name = name
        self._description = "undefined"
        self._timeout_s = options.timeout.total_seconds()
        self._channel = Channel(session, ranks, rank, name, token, options.store)
        self._collectives = Collectives(self._channel)
        self._unwaited = Unwaited()
        self._coalesced: list[FutureFlight] | None = None
        self._pairs: dict[str, Channel] = {}
        self._store = options.store

    # What torch asks about the group.

    def getBackendName(self) -> str:  # noqa: N802
        """Return the name of the backend."""
        return BACKEND

    name = _get_backend_name = getBackendName

    def rank(self) -> int:
        """Return this process' place in the group."""
        return self._channel.rank

    def size(self) -> int:
        """Return the number of ranks in the group."""
        return self._channel.size

    def _set_group_name(self, name: str) -> None:
        self._name = name

    @property
    def group_name(self) -> str:
        """The name under which torch keeps the group."""
        return self._name

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    @property
    def group_desc(self) -> str:
        """What the group is for."""
        return self._description

    def set_timeout(self, timeout: timedelta) -> None:
        """Set after how long a collective ends the group with a DeadlineError."""
        self._timeout_s = timeout.total_seconds()

    def shutdown(self) -> None:
        """End the threads of the group; the job goes on."""
        for channel in (self._channel, *self._pairs.values()):
            channel.close()

    abort = shutdown

    # Sums and the like.

    @untraced
    def allreduce(self, tensors: Any, opts: Any = None, *more: Any) -> dist.Work:
        """Combine over all ranks, in place."""
        tensors = _listed(tensors)
        word = _word(opts)
        memories, brings = [], []
        for tensor in tensors:
            memory, bring_back = room_for(tensor)
            if memory.data_ptr() != tensor.data_ptr():
                memory.copy_(reached_memory(tensor))
            _scale(memory, word, opts)
            memories.append(memory)
            brings.append(bring_back)

        def finish() -> object:
            for bring_back in brings:
                bring_back()
            return tensors

        limit_s = self._limit_s(opts)
        return self._work(self._collectives.combine("all_reduce", word, memories, finish, limit_s))

    allreduce_coalesced = allreduce

    @untraced
    def reduce(self, tensors: Any, opts: Any) -> dist.Work:
        """Combine over all ranks; only the root gets the result."""
        tensor = _listed(tensors)[0]
        memory, word = own_copy(tensor), _word(opts)
        _scale(memory, word, opts)

        def finish() -> object:
            if self.rank() == opts.rootRank:
                bring(memory, tensor)
            return [tensor]

        kind = f"reduce to {opts.rootRank}"
        return self._work(
            self._collectives.combine(kind, word, [memory], finish, self._limit_s(opts))
        )

    @untraced
    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> dist.Work:
        """Combine over all ranks; each gets one of the results."""
        flights = []
        for output, parts in zip(_listed(outputs), _nested(inputs), strict=True):
            whole = torch.cat([part.detach().reshape(-1) for part in parts])
            sizes = [part.numel() for part in parts]
            flights.append(self._reduce_scatter(output, whole, sizes, opts))
        return self._work(*flights)

    @untraced
    def reduce_scatter_single(self, output: Tensor, whole: Tensor, opts: Any = None) -> dist.Work:
        """Combine over all ranks; each gets an equal part of the result."""
        if whole.numel() != output.numel() * self.size():
            raise InvalidArgumentError(
                f"reduce_scatter: the input has {whole.numel()} elements, the output "
                f"{output.numel()}; the input must be {self.size()} times as large."
            )
        return self._work(self._reduce_scatter(output, whole, [output.numel()] * self.size(), opts))

    _reduce_scatter_base = reduce_scatter_single

    @untraced
    def reduce_scatter_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> dist.Work:
        """Do `reduce_scatter_single` with several pairs."""
        return self._work(
            *[
                self._reduce_scatter(output, whole, [output.numel()] * self.size(), opts)
                for output, whole in zip(outputs, inputs, strict=True)
            ]
        )

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _reduce_scatter(
        self, output: Tensor, whole: Tensor, sizes: list[int], opts: Any
    ) -> FutureFlight:
        word, limit_s = _word(opts), self._limit_s(opts)
        if word == "PREMUL_SUM":
            whole = whole.detach() * opts.reduceOp.factor
        return self._collectives.reduce_scatter(word, output, whole.detach(), sizes, limit_s)

    # Copies.

    @untraced
    def broadcast(self, tensors: Any, opts: Any, *more: Any) -> dist.Work:
        """Overwrite with the root's, bit for bit."""
        tensors = _listed(tensors)
        root = opts if isinstance(opts, int) else opts.rootRank
        return self._work(
            self._collectives.broadcast(
                "broadcast", root, tensors, lambda: tensors, self._limit_s(opts)
            )
        )

    @untraced
    def allgather(self, outputs: Any, inputs: Any, opts: Any = None, *more: Any) -> dist.Work:
        """Give every rank the tensors of all ranks."""
        return self._allgather(_nested(outputs), _listed(inputs), opts)

    @untraced
    def allgather_coalesced(
        self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None
    ) -> dist.Work:
        """Do `allgather` with several tensors; each list of outputs comes from one rank."""
        return self._allgather([list(parts) for parts in zip(*outputs, strict=True)], inputs, opts)

    @untraced
    def all_gather_single(self, output: Tensor, own: Tensor, opts: Any = None) -> dist.Work:
        """Give every rank the tensors of all ranks, joined."""
        return self._allgather([output], [own], opts)

    _allgather_base = all_gather_single

    @untraced
    def all_gather_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> dist.Work:
        """Do `all_gather_single` with several pairs."""
        return self._allgather(outputs, inputs, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _allgather(self, outputs: Any, inputs: list[Tensor], opts: Any) -> dist.Work:
        return self._work(
            self._collectives.allgather(
                "all_gather", outputs, inputs, lambda: list(outputs), self._limit_s(opts)
            )
        )

    @untraced
    def gather(self, outputs: Any, inputs: Any, opts: Any) -> dist.Work:
        """Give the root the tensors of all ranks."""
        own, root = _listed(inputs)[0], opts.rootRank
        parts = _nested(outputs)[0] if self.rank() == root else [None] * self.size()
        sent = [own if rank == root else None for rank in range(self.size())]
        kind = f"gather to {root} {describe([own])}"

        def finish() -> object:
            return [parts] if self.rank() == root else []

        return self._work(
            self._collectives.alltoall(kind, parts, sent, finish, self._limit_s(opts))
        )

    @untraced
    def scatter(self, outputs: Any, inputs: Any, opts: Any) -> dist.Work:
        """Give every rank one of the root's tensors."""
        output, root = _listed(outputs)[0], opts.rootRank
        sent = _nested(inputs)[0] if self.rank() == root else [None] * self.size()
        taken = [output if rank == root else None for rank in range(self.size())]
        kind = f"scatter from {root} {describe([output])}"
        return self._work(
            self._collectives.alltoall(kind, taken, sent, lambda: [output], self._limit_s(opts))
        )

    @untraced
    def all_to_all_single(
        self,
        output: Tensor,
        whole: Tensor,
        output_splits: list[int],
        input_splits: list[int],
        opts: Any = None,
        *more: Any,
    ) -> dist.Work:
        """Send every rank a part of the first dimension."""
        return self._work(
            self._collectives.alltoall(
                f"all_to_all {type_name(whole)}",
                self._parts(output, output_splits),
                self._parts(whole.detach(), input_splits),
                lambda: [output],
                self._limit_s(opts),
            )
        )

    alltoall_base = all_to_all_single

    @untraced
    def alltoall(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None, *more: Any
    ) -> dist.Work:
        """Send every rank one tensor."""
        kind = f"all_to_all {type_name(inputs[0])}"
        return self._work(
            self._collectives.alltoall(kind, outputs, inputs, lambda: outputs, self._limit_s(opts))
        )

    def _parts(self, tensor: Tensor, splits: list[int]) -> list[Tensor]:
        """Return the views of a tensor that belong to each rank."""
        if not splits:
            rows, left = divmod(tensor.shape[0] if tensor.dim() else 0, self.size())
            if left or not tensor.dim():
                raise InvalidArgumentError(
                    f"all_to_all: the first dimension of {list(tensor.shape)} is not a multiple "
                    f"of {self.size()} ranks; give the sizes of the splits."
                )
            splits = [rows] * self.size()
        if len(splits) != self.size() or sum(splits) != tensor.shape[0]:
            raise InvalidArgumentError(
                f"all_to_all: the splits {splits} are not {self.size()} numbers that make up the "
                f"first dimension of {list(tensor.shape)}."
            )
        return list(tensor.split(splits))

    @untraced
    def barrier(self, opts: Any = None, *more: Any) -> dist.Work:
        """Wait for all ranks."""
        return self._work(self._collectives.barrier(self._limit_s(opts)))

    # Between two ranks.

    @untraced
    def send(self, tensors: Any, to: int, tag: int) -> dist.Work:
        """Send a tensor to one rank."""
        return self._between(self.rank(), to, tag, _listed(tensors), to)

    @untraced
    def recv(self, tensors: Any, sender: int, tag: int) -> dist.Work:
        """Receive a tensor from one rank."""
        return self._between(sender, self.rank(), tag, _listed(tensors), sender)

    def recv_anysource(self, tensors: Any, tag: int) -> dist.Work:
        """Refuse: both ends of a transfer must name each other."""
        raise InvalidArgumentError("The backend 'byteps' cannot receive from any rank; name it.")

    def _between(
        self, sender: int, receiver: int, tag: int, tensors: list[Tensor], peer: int
    ) -> dist.Work:
        """Broadcast in a channel of two; each direction and tag has its own order of calls."""
        key = f"{sender}to{receiver}.{tag}"
        channel = self._pairs.get(key)
        own = self._channel
        if channel is None:
            if peer == self.rank():
                raise InvalidArgumentError(f"rank {peer} cannot send to itself.")
            places = sorted((self.rank(), peer))
            channel = self._pairs[key] = Channel(
                own.session,
                [own.ranks[place] for place in places],
                places.index(self.rank()),
                f"{self._name}.{key}",
                own.token,
                dist.PrefixStore(f"{key}/", self._store),
            )
        root = channel.rank if sender == self.rank() else 1 - channel.rank
        flight = Collectives(channel).broadcast(
            "send", root, tensors, lambda: tensors, self._timeout_s
        )
        return self._work(flight)

    # What every call ends with.

    @untraced
    def _start_coalescing(self, device: object) -> None:
        self._coalesced = []

    @untraced
    def _end_coalescing(self, device: object) -> dist.Work:
        flights, self._coalesced = self._coalesced or [], None
        return FlightWork(flights, self._channel.teller, self._unwaited)

    def _work(self, *flights: FutureFlight) -> dist.Work:
        if self._coalesced is not None:
            self._coalesced += flights
        return FlightWork(list(flights), self._channel.teller, self._unwaited)

    def _limit_s(self, opts: Any) -> float:
        asked = getattr(opts, "timeout", None)
        if isinstance(asked, timedelta) and asked > timedelta(0):
            return asked.total_seconds()
        return self._timeout_s


def _word(opts: Any) -> str:
    """Return torch's word for the reduction in the options, which may be the reduction itself."""
    op = dist.ReduceOp.SUM if opts is None else getattr(opts, "reduceOp", opts)
    return str(getattr(op, "op", op).name)


def _scale(memory: Tensor, word: str, opts: Any) -> None:
    """Multiply by the factor of PREMUL_SUM."""
    if word == "PREMUL_SUM":
        memory.mul_(opts.reduceOp.factor)


def _listed(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else list(value)


def _nested(value: Any) -> list[list[Tensor]]:
    return [value] if value and isinstance(value[0], Tensor) else value
