"""Paths between hosts that take long: what TCP does there, and what caps it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# As in the library (docs/decisions/0034-long-paths.md).
LONG_US = 5000.0
CONGESTION = "bbr"


def facts(root: Path = Path("/")) -> dict[str, object]:
    """Return what a process may do on a long path of this machine."""
    return {
        "long_path_congestion": _may_choose(CONGESTION),
        "tcp_send_bytes": _largest(root, "tcp_wmem"),
        "tcp_receive_bytes": _largest(root, "tcp_rmem"),
    }


def warning(target: str, round_trip_us: float, found: Mapping[str, Any]) -> str:
    """Return what hurts on the path from a host with these facts; empty: nothing does."""
    if round_trip_us < LONG_US or found["long_path_congestion"]:
        return ""
    return (
        f"the path to {target} takes {round_trip_us / 1000:.0f} ms there and back, and this system "
        f"does not let a process choose the congestion control {CONGESTION}. If packets are lost, "
        f"{found['congestion_control']} carries a small part of the link. As root: modprobe "
        f"tcp_{CONGESTION}; sysctl -w net.ipv4.tcp_allowed_congestion_control="
        f"'reno {found['congestion_control']} {CONGESTION}'"
    )


def most_mbit(round_trip_us: float, source: Mapping[str, Any], target: Mapping[str, Any]) -> float:
    """Return what the kernels' buffers let one connection carry at most; without losses."""
    holds = [source["tcp_send_bytes"], target["tcp_receive_bytes"]]
    known = [nbytes for nbytes in holds if nbytes is not None]
    return min(known, default=float("inf")) * 8 / round_trip_us


def _may_choose(name: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except OSError:
            return False
        return True


def _largest(root: Path, name: str) -> int | None:
    """Return how large the kernel lets a buffer grow; None: not told."""
    try:
        return int((root / "proc/sys/net/ipv4" / name).read_text().split()[2])
    except (OSError, ValueError, IndexError):
        return None
