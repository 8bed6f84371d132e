"""What the environment says about where the processes of a job meet."""

from __future__ import annotations

import os
import socket

LOOPBACK = "127.0.0.1"


def torch_knows_where() -> bool:
    """Return whether somebody told torch where its ranks meet."""
    return bool(os.environ.get("MASTER_ADDR"))


def tell_libraries(rank: int, size: int, local_rank: int, local_size: int) -> None:
    """Set the variables that `torchrun` sets and that libraries over torch look at."""
    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(size),
        LOCAL_RANK=str(local_rank),
        LOCAL_WORLD_SIZE=str(local_size),
    )


def own_address(on_one_machine: bool) -> str:
    """Return the address to announce: DMLC_NODE_HOST, or that of the route to the scheduler."""
    host = os.environ.get("DMLC_NODE_HOST")
    if host:
        return host
    root = os.environ.get("DMLC_PS_ROOT_URI")
    if on_one_machine or not root:
        return LOOPBACK
    family, kind, protocol, _, address = socket.getaddrinfo(root, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)  # sends nothing
        own: str = probe.getsockname()[0]
        return own
