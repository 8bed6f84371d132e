"""The GPUs whose memory the native library reaches, and NCCL; and why there are none."""

from __future__ import annotations

import importlib.util
import logging
import os
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

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


@dataclass(frozen=True)
class Nccl:
    """The NCCL by which the GPUs of a machine would sum among themselves, in a job with servers."""

    version: int  # 22809 is 2.28.9; 0: none
    text: str
    file: str
    why_none: str = ""  # the reason, if the version is 0


@lru_cache(maxsize=1)
def find_nccl() -> Nccl:
    """Return the NCCL that the user has named, that the process has loaded, or that the loader
    finds; or else the one of NVIDIA's package.

    The process stays without NCCL if it had none, so that a framework gets its own later.
    """
    why_none = ""
    for settings in ([], *_settings_of_package()):
        try:
            from byteps import _core

            return Nccl(*_core.nccl_info(settings))
        except (BytepsError, ImportError) as error:
            why_none = why_none or str(error)
    return Nccl(0, "", "", why_none)


def _settings_of_package() -> list[list[str]]:
    """Return settings that name NCCL in NVIDIA's package, as torch and JAX install it."""
    if os.environ.get("BYTEPS_NCCL_LIBRARY"):
        return []
    try:
        package = importlib.util.find_spec("nvidia.nccl")
    except ImportError:
        return []
    folders = [] if package is None else package.submodule_search_locations or []
    files = [Path(folder) / "lib" / "libnccl.so.2" for folder in folders]
    return [[f"nccl_library={file}"] for file in files if file.exists()]


@cache
def warn_of_host_copies(kind: str, why: str) -> None:
    """Say once, for a kind of device and a reason, that its tensors pass through host memory."""
    _LOG.warning(
        "tensors on %s are copied through host memory, and each call waits for the device: %s",
        kind,
        why,
    )
