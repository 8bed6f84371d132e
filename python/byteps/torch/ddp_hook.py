"""A communication hook for torch's own DistributedDataParallel: buckets travel through byteps."""

from __future__ import annotations

from typing import Any, cast

import torch

from byteps.common.gradients.compression import check_compression
from byteps.common.gradients.exchange_options import ExchangeOptions
from byteps.common.gradients.gradient_exchange import gradient_call
from byteps.common.operations.call import request_of
from byteps.common.session import default
from byteps.common.session.flight import Flight
from byteps.common.session.session import Session
from byteps.torch.compile_guard import untraced
from byteps.torch.compression import Compression, Compressor
from byteps.torch.devices import place_of
from byteps.torch.distributed.flight import FutureFlight, Teller
from byteps.torch.gradients import put_back
from byteps.torch.memory import data_type, reached_memory


class DDPHookState:
    """What `ddp_comm_hook` needs beside the bucket.

    Give models that train side by side states of different names, the same on all ranks. With
    `compression=Compression.fp16` buckets travel as float16.

    Example::

        model.register_comm_hook(bps.DDPHookState("generator"), bps.ddp_comm_hook)
    """

    def __init__(
        self, name: str = "model", compression: Compressor | type[Compressor] = Compression.none
    ) -> None:
        check_compression(compression)
        self.name = name
        self.options = ExchangeOptions(compression)
        self.teller = Teller(f"byteps-hook-{name}")


@untraced
def ddp_comm_hook(state: DDPHookState | None, bucket: Any) -> Any:
    """Average the bucket over all ranks of the job; return a Future of it.

    With the backend `byteps` torch's ranks are the job's and nothing else is needed. With another
    backend let each process be a world of its own (`world_size=1`): torch then neither compares
    nor broadcasts the models, so call `bps.broadcast_parameters` first.

    Example::

        bps.init()
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        bps.broadcast_parameters(model.state_dict(), root_rank=0)
        model = torch.nn.parallel.DistributedDataParallel(model)
        model.register_comm_hook(None, bps.ddp_comm_hook)
    """
    session = default.current()
    if state is None:
        state = _state_of(session)
    buffer, compression = bucket.buffer(), state.options.compression
    compressed, context = compression.compress(buffer.detach())
    wire = reached_memory(compressed)
    # Buckets are cut anew after the first step; the later one comes, the sooner forward needs it.
    name, priority = f"DDPHook.{state.name}.{bucket.index()}", bucket.index()
    call = gradient_call(state.options, name, priority)
    device, dtype, place = buffer.device.type, data_type(wire), wire.data_ptr()
    shape, on = tuple(wire.shape), place_of(wire)
    request = request_of(session, call, device, dtype, shape, place, place, on)

    def finish(_: Flight) -> torch.Tensor:
        put_back(compression.decompress(wire, context), buffer)
        return buffer

    return FutureFlight(session, [request], finish, (buffer, wire)).future(state.teller)


# torch compares the annotations of a hook with its own types, and takes texts for wrong ones.
ddp_comm_hook.__annotations__.clear()


def _state_of(session: Session) -> DDPHookState:
    """Return the state of those who gave none."""
    state = session.plugin_state.setdefault("ddp_comm_hook", DDPHookState())
    return cast(DDPHookState, state)
