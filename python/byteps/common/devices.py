"""The GPUs whose memory the native library reaches, and why there are none."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache, lru_cache

from byteps.common.errors import BytepsError

_LOG = logging.getLogger("byteps")


@dataclass(frozen=True)
class DevicePlace:
    """Where the memory of an operation is: on a device. The operation comes behind what the stream
    has been given."""

    device: int
    stream: int


@dataclass(frozen=True)
class Devices:
    """What the CUDA driver of this process shows."""

    count: int
    names: tuple[str, ...]
    driver: str  # its version, "13.0"
    why_none: str = ""  # the reason, if the count is 0


@lru_cache(maxsize=1)
def find_devices() -> Devices:
    """Return the devices of this process.

    The first call starts the CUDA driver, and may wait for it. Children of fork cannot use CUDA
    after that.
    """
    names: list[str] = []
    count, driver = 1, ""
    try:
        from byteps import _core

        while len(names) < count:
            count, name, driver = _core.device_info([], len(names))
            names.append(name)
    except (BytepsError, ImportError) as error:
        return Devices(0, (), "", str(error))
    return Devices(count, tuple(names), driver)


@cache
def warn_of_host_copies(kind: str, why: str) -> None:
    """Say once, for a kind of device and a reason, that its tensors pass through host memory."""
    _LOG.warning(
        "tensors on %s are copied through host memory, and each call waits for the device: %s",
        kind,
        why,
    )
