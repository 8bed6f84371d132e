"""What the environment says about where the processes of a job meet."""

from __future__ import annotations

import os
import socket

LOOPBACK = "127.0.0.1"
_TORCH_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def torch_knows_where() -> bool:
    """Return whether torch's own variables are set, all or some of them."""
    return any(os.environ.get(name) for name in _TORCH_VARIABLES)


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
