"""What the bits of sums will depend on in a job on these hosts, and which way its GPUs sum."""

from __future__ import annotations

import os
from typing import Any

from byteps.common.errors import BytepsError
from byteps.common.same_bits import SameBits


def slots_of(hosts: str) -> list[int]:
    """Return the workers of each host in "a:4,b:4"; none if a host does not say."""
    words = [word.strip().partition(":")[2] for word in hosts.split(",") if word.strip()]
    return [int(word) for word in words] if all(word.isdecimal() for word in words) else []


def foresee(slots: list[int]) -> dict[str, Any]:
    """Say it of hosts with so many workers, with the options that the environment has."""
    from byteps import _core

    found = SameBits.of(*_core.foresee_sums(_first_worker(slots)))
    return {"floats": found.floats, "halves": found.halves, "text": found.reason}


def foresee_on_gpus(ranks: int) -> str:
    """Say which way sums take on this machine with BYTEPS_DEVICE_SUMS=auto, or another value that
    the user has set, in a job with servers, two such machines and a rank for each GPU; the plan
    behind it is a forecast.
    """
    from byteps import _core

    told = [] if os.environ.get("BYTEPS_DEVICE_SUMS") else ["device_sums=auto"]
    try:
        return _core.foresee_device_sums([*_first_worker([ranks, ranks]), *told])
    except BytepsError as error:
        return f"no forecast, because {error}"


def _first_worker(slots: list[int]) -> list[str]:
    """Return the settings of the first worker of a job on hosts with so many."""
    return [
        "role=worker",
        f"num_worker={len(slots)}",
        f"local_sizes={','.join(map(str, slots))}",
        f"local_size={slots[0]}",
        "local_rank=0",
        "worker_id=0",
        "num_server=1",
        "root_host=doctor.invalid",
        "root_port=1",
    ]
