"""What this machine has for RDMA, what keeps a job from using it, and what to do about it.

It reads what the system shows of devices, and opens none.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

# What a connection has registered: 16 slots and one message of 32 KiB, and their heads.
_CONNECTION_BYTES = 17 * (32 << 10) + 2 * 16 * 160
# Memory is registered in pieces of this size, at least one for each thread with connections.
_SLAB_BYTES = 2 << 20
_RAISE = "raise `ulimit -l`, in Docker with --ulimit memlock=-1, in systemd with "
_RAISE += "LimitMEMLOCK=infinity"
_INSTALL = "install ibverbs-providers (Debian, Ubuntu) or rdma-core (Fedora, RHEL)"


@dataclass
class Gid:
    """An address of a port in its table."""

    index: int
    address: str  # of IP; empty: it is none
    kind: str  # "RoCE v2"
    interface: str


@dataclass
class Port:
    """A port of a device."""

    number: int
    link: str
    state: str
    rate: str
    gids: list[Gid] = field(default_factory=list)

    @property
    def is_active(self) -> bool:
        """Return whether the port works."""
        return self.state == "ACTIVE"

    def serves(self) -> list[Gid]:
        """Return the entries by which connections reach this port."""
        if self.link != "Ethernet":
            return self.gids[:1]
        return [gid for gid in self.gids if gid.address and gid.kind == "RoCE v2"]


@dataclass
class Device:
    """A device for RDMA."""

    name: str
    is_hardware: bool
    ports: list[Port] = field(default_factory=list)


def facts(library: str | None, locked: int | None, root: Path = Path("/")) -> dict[str, Any]:
    """Return all facts as plain values; `library` is where libibverbs is."""
    return {
        "library": library,
        "version": _version_of(library),
        "devices": [asdict(one) for one in devices(root)],
        "opened_by": sorted(path.name for path in (root / "dev/infiniband").glob("uverbs*")),
        "locked_memory_bytes": locked,
    }


def devices(root: Path = Path("/")) -> list[Device]:
    """Return the devices that the system shows."""
    found = []
    for folder in sorted((root / "sys/class/infiniband").glob("*")):
        # RDMA in software, which is slower than TCP, belongs to no card.
        device = Device(folder.name, (folder / "device").exists())
        for port in sorted((folder / "ports").glob("*"), key=lambda one: one.name):
            device.ports.append(
                Port(
                    int(port.name),
                    _read(port / "link_layer"),
                    _read(port / "state").partition(": ")[2],
                    _read(port / "rate"),
                    _gids(port),
                )
            )
        found.append(device)
    return found


def describe(found: Mapping[str, Any]) -> list[str]:
    """Return what there is, a text for each line."""
    library = found["library"]
    version = f" (rdma-core {found['version']})" if found["version"] else ""
    lines = [f"library {library}{version}" if library else f"no libibverbs.so.1; {_INSTALL}"]
    for device in _devices_of(found):
        kind = "" if device.is_hardware else ", in software"
        for port in device.ports:
            serves = [
                f"{gid.address or 'its subnet'} (GID {gid.index}, "
                f"{gid.interface or 'no interface'})"
                for gid in port.serves()
            ]
            lines.append(
                f"{device.name}:{port.number}{kind}, {port.link}, {port.state.lower()}, "
                f"{port.rate}; serves {', '.join(serves) or 'no address'}"
            )
    if found["devices"]:
        lines.append(f"memory: {_memory(found)}")
    return lines


def notes(found: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each thing that keeps a device from serving, and the next step."""
    present = _devices_of(found)
    if not present:
        return []
    texts = []
    names = ", ".join(device.name for device in present)
    if found["library"] is None:
        texts.append(f"{names} is not used: there is no libibverbs.so.1 here; {_INSTALL}")
    if not found["opened_by"]:
        texts.append(
            f"{names} is not used: /dev/infiniband has no uverbs device, so no program can open "
            "it; a container needs --device /dev/infiniband, a host the module ib_uverbs"
        )
    for device in present:
        texts += _notes_of(device)
    locked = found["locked_memory_bytes"]
    if locked is not None and locked < _SLAB_BYTES:
        texts.append(
            f"{names} is not used: a process may lock {locked >> 10} KiB, and each thread with "
            f"connections needs {_SLAB_BYTES >> 20} MiB or more; {_RAISE}"
        )
    return texts


def problems(found: Mapping[str, Any], transport: str) -> list[str]:
    """Return why a job with BYTEPS_TRANSPORT=`transport` cannot start here."""
    if transport != "rdma":
        return []
    if not found["devices"]:
        return [
            "BYTEPS_TRANSPORT=rdma, and this host shows no RDMA device; a container needs "
            "--device /dev/infiniband; BYTEPS_TRANSPORT=auto goes on over TCP"
        ]
    if _is_usable(found):
        return []
    return [
        "BYTEPS_TRANSPORT=rdma, and no RDMA device can serve here, for the reasons in the notes; "
        "BYTEPS_TRANSPORT=auto goes on over TCP"
    ]


def card_rates(found: Mapping[str, Any]) -> list[str]:
    """Return each port of a card that can serve a job, with the rate that the system says."""
    if not found or not _is_usable(found):
        return []
    return [
        f"{device.name}:{port.number}, {port.rate}"
        for device in _devices_of(found)
        for port in device.ports
        if device.is_hardware and port.is_active and port.serves()
    ]


def _is_usable(found: Mapping[str, Any]) -> bool:
    locked = found["locked_memory_bytes"]
    return (
        found["library"] is not None
        and bool(found["opened_by"])
        and (locked is None or locked >= _SLAB_BYTES)
        and any(
            port.is_active and port.serves() for one in _devices_of(found) for port in one.ports
        )
    )


def _notes_of(device: Device) -> Iterable[str]:
    for port in device.ports:
        name = f"{device.name}:{port.number}"
        if not port.is_active:
            yield (
                f"{name} is not used: the port is {port.state.lower()}; look at its cable and "
                "switch, and at `ip link` for its interface"
            )
        elif not port.serves():
            yield (
                f"{name} is not used: no address of this host is in its table for RoCE v2; give "
                "its interface an address, and let BYTEPS_INTERFACES name the interface"
            )
    if not device.is_hardware:
        yield (
            f"{device.name} is RDMA in software and slower than TCP: BYTEPS_TRANSPORT=auto leaves "
            "it alone; BYTEPS_TRANSPORT=rdma or BYTEPS_RDMA_DEVICES takes it, for tests"
        )


def _memory(found: Mapping[str, Any]) -> str:
    locked = found["locked_memory_bytes"]
    each = f"a connection needs {_CONNECTION_BYTES / (1 << 20):.1f} MiB"
    if locked is None:
        return f"{each}; a process may lock any amount"
    return (
        f"{each}; a process may lock {locked >> 20} MiB, so at most {locked // _CONNECTION_BYTES} "
        f"connections of a process go over RDMA and the others over TCP; for more, {_RAISE}"
    )


def _devices_of(found: Mapping[str, Any]) -> list[Device]:
    return [
        Device(
            one["name"],
            one["is_hardware"],
            [
                Port(
                    port["number"],
                    port["link"],
                    port["state"],
                    port["rate"],
                    [Gid(**gid) for gid in port["gids"]],
                )
                for port in one["ports"]
            ],
        )
        for one in found["devices"]
    ]


def _gids(port: Path) -> list[Gid]:
    found = []
    for file in sorted((port / "gids").glob("*"), key=lambda one: int(one.name)):
        value = _read(file)
        # Free entries of the table are all zero, or cannot be read.
        if not value.strip("0:"):
            continue
        address = ipaddress.IPv6Address(value)
        found.append(
            Gid(
                int(file.name),
                "" if address.is_link_local else str(address.ipv4_mapped or address),
                _read(port / "gid_attrs/types" / file.name),
                _read(port / "gid_attrs/ndevs" / file.name),
            )
        )
    return found


def _version_of(library: str | None) -> str:
    """Return the version of rdma-core, which is the end of the file's name: so.1.14.44.0."""
    if library is None:
        return ""
    match = re.search(r"\.so\.1\.\d+\.(\d+\.\d+)$", str(Path(library).resolve()))
    return match[1] if match else ""


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
