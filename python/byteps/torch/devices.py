"""Devices of torch whose memory the session reaches: where a tensor is, for the native library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from byteps.common.devices import DevicePlace, find_devices, warn_of_host_copies


@dataclass(frozen=True)
class DeviceType:
    """What the session must know of a type of device."""

    # The stream that the calling thread gives its work to, as a number.
    stream: Callable[[torch.device], int]
    # Waits for what the calling thread has given to the device.
    synchronize: Callable[[torch.device], object]


TYPES = {
    "cuda": DeviceType(
        lambda device: int(torch.cuda.current_stream(device).cuda_stream),
        lambda device: torch.cuda.current_stream(device).synchronize(),
    ),
}


def is_reached(tensor: torch.Tensor) -> bool:
    """Return whether the session reaches the tensor's memory on its device.

    The first tensor on a device of which it does not reach the memory is told as a warning.
    """
    if tensor.is_cpu:
        return False
    kind = tensor.device.type
    if kind not in TYPES:
        return False
    why = find_devices().why_none
    if why:
        warn_of_host_copies(kind, why)
    return not why


def place_of(memory: torch.Tensor) -> DevicePlace | None:
    """Return where memory is that the session reaches: None for that of the host.

    To be called behind everything that the thread has given to the device for this memory.
    """
    if memory.is_cpu:
        return None
    device = memory.device
    return DevicePlace(device.index or 0, TYPES[device.type].stream(device))


def synchronize(tensor: torch.Tensor) -> None:
    """Wait for what the calling thread has given to the tensor's device, if that runs later."""
    kind = TYPES.get(tensor.device.type)
    if kind is not None:
        kind.synchronize(tensor.device)
