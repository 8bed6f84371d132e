"""What the environment says about where the processes of a job meet."""

from __future__ import annotations

import ipaddress
import os
import socket

LOOPBACK = "127.0.0.1"

# An address for documents (RFC 5737): no network has it, so the default route is taken.
OUTSIDE = "192.0.2.1"


def tell_libraries(rank: int, size: int, local_rank: int, local_size: int) -> None:
    """Set the variables that `torchrun` sets and that libraries over torch look at."""
    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(size),
        LOCAL_RANK=str(local_rank),
        LOCAL_WORLD_SIZE=str(local_size),
    )


def own_address(on_one_machine: bool) -> str:
    """Return the address to announce: DMLC_NODE_HOST, or that of the route to the scheduler.

    Where the scheduler's name stands for loopback (Debian's /etc/hosts maps a machine's own name to
    127.0.1.1) no other machine could come there: then it is where the way out of this one starts.
    The library does the same for servers (src/transport/address.h, PickAnnouncement).
    """
    host = os.environ.get("DMLC_NODE_HOST")
    if host:
        return host
    root = os.environ.get("DMLC_PS_ROOT_URI")
    if on_one_machine or not root:
        return LOOPBACK
    own = source_towards(root)
    if not _is_loopback(own) or root == "localhost" or _is_loopback(root):
        return own
    try:
        return source_towards(OUTSIDE)
    except OSError:  # there is no way out
        return own


def source_towards(host: str) -> str:
    """Return the own address at which the route to `host` starts."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)  # sends nothing
        own: str = probe.getsockname()[0]
        return own


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:  # a name
        return False
