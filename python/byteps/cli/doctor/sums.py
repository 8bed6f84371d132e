"""What the bits of sums will depend on in a job on these hosts."""

from __future__ import annotations

from typing import Any

from byteps.common.same_bits import SameBits


def slots_of(hosts: str) -> list[int]:
    """Return the workers of each host in "a:4,b:4"; none if a host does not say."""
    words = [word.strip().partition(":")[2] for word in hosts.split(",") if word.strip()]
    return [int(word) for word in words] if all(word.isdecimal() for word in words) else []


def foresee(slots: list[int]) -> dict[str, Any]:
    """Say it of hosts with so many workers, with the options that the environment has."""
    from byteps import _core

    settings = [
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
    found = SameBits.of(*_core.foresee_sums(settings))
    return {"floats": found.floats, "halves": found.halves, "text": found.reason}
