"""Groups in which byteps serves some devices and others serve the rest: `cpu:byteps,cuda:nccl`.

A process group in Python serves all devices, as torch has it. So such a group makes another one, of
torch, for the other devices, and passes on what concerns their tensors.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor

from byteps.torch.compile_guard import untraced
from byteps.torch.distributed.process_group import BytepsProcessGroup, refuse_options
from byteps.torch_registry import BACKEND

# Not the barrier: it waits for ranks, and needs no device.
_PASSED_ON = (
    "allreduce",
    "allreduce_coalesced",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "_reduce_scatter_base",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced",
    "broadcast",
    "allgather",
    "allgather_coalesced",
    "all_gather_single",
    "_allgather_base",
    "all_gather_single_coalesced",
    "allgather_into_tensor_coalesced",
    "gather",
    "scatter",
    "all_to_all_single",
    "alltoall_base",
    "alltoall",
    "send",
    "recv",
    "recv_anysource",
    "_start_coalescing",
    "_end_coalescing",
)


def create(options: Any, backend_options: object = None) -> BytepsProcessGroup:
    """Make the process group that torch describes; joins the job if that was not done."""
    others = _devices_of_others()
    refuse_options(options, None if others else backend_options)
    if others:
        return SplitProcessGroup(options, backend_options, others)
    return BytepsProcessGroup(options)


class SplitProcessGroup(BytepsProcessGroup):
    """A group that passes on what concerns the tensors of some devices."""

    def __init__(self, options: Any, backend_options: object, others: dict[str, str]) -> None:
        """`others`: the backend of each device that is not for byteps."""
        super().__init__(options)
        self._devices = frozenset(others)
        self._others = _group_of_torch(options, backend_options, others)

    def _get_backend(self, device: torch.device) -> Any:
        return self._others._get_backend(device) if device.type in self._devices else self

    def shutdown(self) -> None:
        """End the threads of the group, and the group of the other devices; the job goes on."""
        super().shutdown()
        self._others.shutdown()

    abort = shutdown

    def _group_for(self, arguments: Any) -> Any:
        """Return the group of torch, if the first device among the arguments is one of its own."""
        device = _first_device(arguments)
        return self._others if device is not None and device.type in self._devices else None


def _passing_on(name: str) -> Any:
    own = getattr(BytepsProcessGroup, name)

    @functools.wraps(own)
    def call(self: SplitProcessGroup, *arguments: Any, **more: Any) -> Any:
        other = self._group_for(arguments)
        if other is None:
            return own(self, *arguments, **more)
        return getattr(other, name)(*arguments, **more)

    return untraced(call)


for _name in _PASSED_ON:
    setattr(SplitProcessGroup, _name, _passing_on(_name))


def _first_device(value: Any) -> torch.device | None:
    if isinstance(value, torch.device):
        return value
    if isinstance(value, Tensor):
        return value.device
    if isinstance(value, (list, tuple)):
        return next((one for one in map(_first_device, value) if one is not None), None)
    return None


def _devices_of_others() -> dict[str, str]:
    """Return the other backends of the group that torch is making, by device.

    torch tells a backend nothing of the others, so this looks at the function that has called it. A
    device that this machine lacks is left out: there are no tensors of it.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_new_process_group_helper":
            config = frame.f_locals.get("backend_config")
            devices = {} if config is None else config.get_device_backend_map()
            return {d: str(b) for d, b in devices.items() if str(b) != BACKEND and _is_here(d)}
        frame = cast("types.FrameType", frame.f_back)
    return {}


def _is_here(device: str) -> bool:
    is_available = getattr(getattr(torch, device, None), "is_available", None)
    return is_available is None or bool(is_available())


def _group_of_torch(options: Any, backend_options: object, others: dict[str, str]) -> Any:
    """Make a group of the same ranks with other backends. Collective."""
    make = dist.distributed_c10d._new_process_group_helper
    more: dict[str, Any] = {"group_name": f"{options.group_id}.others", "timeout": options.timeout}
    if backend_options is not None:
        new = "backend_options" in inspect.signature(make).parameters  # torch 2.6
        more["backend_options" if new else "pg_options"] = backend_options
    group, _ = make(
        options.group_size,
        options.group_rank,
        list(options.global_ranks_in_group),
        ",".join(f"{device}:{backend}" for device, backend in others.items()),
        dist.PrefixStore("others", options.store),
        **more,
    )
    return group
