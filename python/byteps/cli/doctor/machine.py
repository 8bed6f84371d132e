"""What this machine has: cores, limits, addresses, and how its TCP behaves."""

from __future__ import annotations

import fcntl
import os
import platform
import resource
import socket
import struct
from pathlib import Path

from byteps.cli.cores import (
    CORES_MAX,
    ROOT,
    SWITCH_VARIABLE,
    format_cores,
    node_of_interface,
    nodes,
    switch_or,
)
from byteps.cli.doctor import long_paths

_SIOCGIFADDR = 0x8915
_INTERFACE_NAME_BYTES = 15
_NOWHERE = ("192.0.2.1", 9)  # reserved for documents; nothing is sent
_DESCRIPTORS_WANTED = 1024
_SHARED_BYTES_WANTED = 64 << 20


def facts() -> dict[str, object]:
    """Return all facts of this machine, as plain values."""
    return {
        "host": socket.gethostname(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)),
        "cores_of_machine": os.cpu_count(),
        "cpu_limit": _cpu_limit(),
        "numa_nodes": numa_nodes(),
        "numa_on": _numa_on(),
        "descriptors": _limit(resource.RLIMIT_NOFILE),
        "locked_memory_bytes": _limit(resource.RLIMIT_MEMLOCK),
        "shared_memory_bytes": _shared_memory(),
        "addresses": _addresses(),
        "address_outwards": _address_outwards(),
        "congestion_control": _kernel("tcp_congestion_control"),
        "congestion_controls": _kernel("tcp_available_congestion_control").split(),
        **long_paths.facts(),
    }


def warnings(found: dict[str, object]) -> list[str]:
    """Return a sentence for each fact that will hurt."""
    texts = []
    descriptors = found["descriptors"]
    if isinstance(descriptors, int) and descriptors < _DESCRIPTORS_WANTED:
        texts.append(
            f"a process may open {descriptors} descriptors only; large jobs need "
            f"{_DESCRIPTORS_WANTED} or more (ulimit -n)"
        )
    return texts


def notes(found: dict[str, object]) -> list[str]:
    """Return a sentence for each fact that hurts some programs, and no job of byteps by itself."""
    texts = []
    shared = found["shared_memory_bytes"]
    if isinstance(shared, int) and shared < _SHARED_BYTES_WANTED:
        texts.append(
            f"/dev/shm has {shared >> 20} MiB free; byteps needs none of it, but the workers of a "
            "DataLoader of torch do; a container gets more with --shm-size=1g"
        )
    if found["address_outwards"] is None:
        texts.append(
            "this machine has no route to other networks; jobs run on the networks that it is in"
        )
    return texts


def _limit(which: int) -> int | None:
    """Return the soft limit; None: unlimited."""
    soft, _ = resource.getrlimit(which)
    return None if soft == resource.RLIM_INFINITY else soft


def _cpu_limit() -> float | None:
    """Return how many cores the control group may use; None: all."""
    for quota_file in ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"):
        try:
            words = Path(quota_file).read_text().split()
            if words[0] in ("max", "-1"):
                return None
            if len(words) == 1:
                words.append(Path(quota_file.replace("quota", "period")).read_text().strip())
            return int(words[0]) / int(words[1])
        except (OSError, ValueError, IndexError):
            continue
    return None


def numa_nodes(root: Path = ROOT) -> dict[str, str]:
    """Return the cores of each NUMA node that has some for this process; none: not told."""
    allowed = sorted(os.sched_getaffinity(0)) if root == ROOT else range(CORES_MAX)
    return {
        str(node.number): format_cores([core for group in node.cores for core in group])
        for node in nodes(allowed, root)
    }


def _numa_on() -> bool:
    """Return whether the environment leaves binding to cores on."""
    return switch_or(SWITCH_VARIABLE, True, os.environ)


def _shared_memory() -> int | None:
    try:
        shared = os.statvfs("/dev/shm")
    except OSError:
        return None
    return shared.f_bavail * shared.f_frsize


def _kernel(name: str) -> str:
    try:
        return Path(f"/proc/sys/net/ipv4/{name}").read_text().strip()
    except OSError:
        return ""


def _addresses() -> list[dict[str, object]]:
    """Return the interfaces that are not the loopback, with their addresses and speeds."""
    found: list[dict[str, object]] = []
    sixes = _version_6()
    for _, name in socket.if_nameindex():
        addresses = [*_version_4(name), *sixes.get(name, [])]
        if addresses and name != "lo":
            found.append(
                {
                    "interface": name,
                    "addresses": addresses,
                    "mbit": speed(name),
                    "numa_node": node_of_interface(name),
                }
            )
    return found


def interface_of(address: str) -> str:
    """Return the interface that has an address; empty: none."""
    names = (name for _, name in socket.if_nameindex())
    sixes = _version_6()
    return next((n for n in names if address in [*_version_4(n), *sixes.get(n, [])]), "")


def _version_4(interface: str) -> list[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        name = struct.pack("256s", interface.encode()[:_INTERFACE_NAME_BYTES])
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, name)
        except OSError:
            return []
        return [socket.inet_ntoa(answer[20:24])]


def _version_6() -> dict[str, list[str]]:
    """Return the addresses of version 6 by interface, without those of one link."""
    found: dict[str, list[str]] = {}
    try:
        lines = Path("/proc/net/if_inet6").read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        digits, _, _, scope, _, name = line.split()
        if scope == "00":
            address = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))
            found.setdefault(name, []).append(address)
    return found


def speed(interface: str, root: Path = ROOT) -> int | None:
    """Return the rate that a network card has; None: unknown.

    Virtual devices that are not made of cards name one that says nothing.
    """
    folder = root / "sys/class/net" / interface
    if not (folder / "device").exists() and not any(folder.glob("lower_*")):
        return None
    try:
        mbit = int((folder / "speed").read_text())
    except (OSError, ValueError):
        return None
    return mbit if mbit > 0 else None


def _address_outwards() -> str | None:
    """Return the address that this machine uses toward other networks."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_NOWHERE)
        except OSError:
            return None
        return str(probe.getsockname()[0])
