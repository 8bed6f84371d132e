"""What `bps doctor` says of RDMA, from what a system shows of its devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from byteps.cli.doctor import rdma

MIB = 1 << 20


class System:
    """Files as the kernel shows them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("usr/lib/libibverbs.so.1.14.44.0", "")
        (root / "usr/lib/libibverbs.so.1").symlink_to("libibverbs.so.1.14.44.0")
        self.library: str | None = str(root / "usr/lib/libibverbs.so.1")
        self.locked: int | None = None

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def device(self, name: str, hardware: bool = True, state: str = "4: ACTIVE") -> None:
        port = f"sys/class/infiniband/{name}/ports/1"
        self.write(f"{port}/link_layer", "Ethernet\n")
        self.write(f"{port}/state", state + "\n")
        self.write(f"{port}/rate", "100 Gb/sec (4X EDR)\n")
        if hardware:
            self.write(f"sys/class/infiniband/{name}/device/vendor", "0x15b3\n")
        self.write("dev/infiniband/uverbs0", "")
        self.gid(name, 0, "fe80:0000:0000:0000:0a00:00ff:fe00:0001", "RoCE v2")
        self.gid(name, 1, "0000:0000:0000:0000:0000:ffff:0a00:0003", "IB/RoCE v1")
        self.gid(name, 10, "0000:0000:0000:0000:0000:0000:0000:0000", "")

    def gid(self, name: str, index: int, gid: str, kind: str) -> None:
        port = f"sys/class/infiniband/{name}/ports/1"
        self.write(f"{port}/gids/{index}", gid + "\n")
        self.write(f"{port}/gid_attrs/types/{index}", kind + "\n")
        self.write(f"{port}/gid_attrs/ndevs/{index}", "eth1\n")

    def address(self, name: str) -> None:
        self.gid(name, 3, "0000:0000:0000:0000:0000:ffff:0a00:0003", "RoCE v2")

    def facts(self) -> dict[str, Any]:
        return rdma.facts(self.library, self.locked, self.root)


@pytest.fixture
def system(tmp_path) -> System:
    return System(tmp_path)


def test_a_host_without_devices_has_one_line_and_no_note(system) -> None:
    found = system.facts()
    assert rdma.describe(found) == [f"library {system.library} (rdma-core 44.0)"]
    assert rdma.notes(found) == []
    assert rdma.problems(found, "auto") == rdma.problems(found, "") == []
    (text,) = rdma.problems(found, "rdma")
    assert "/dev/infiniband" in text
    system.library = None
    assert rdma.describe(system.facts()) == [
        "no libibverbs.so.1; install ibverbs-providers (Debian, Ubuntu) or rdma-core (Fedora, RHEL)"
    ]


def test_a_device_that_serves_has_no_note(system) -> None:
    system.device("mlx5_0")
    system.address("mlx5_0")
    found = system.facts()
    assert rdma.describe(found)[1:] == [
        "mlx5_0:1, Ethernet, active, 100 Gb/sec (4X EDR); serves 10.0.0.3 (GID 3, eth1)",
        "memory: a connection needs 0.5 MiB; a process may lock any amount",
    ]
    assert rdma.notes(found) == []
    assert rdma.problems(found, "rdma") == []


def test_infiniband_serves_its_subnet(system) -> None:
    system.device("mlx5_0")
    system.write("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n")
    assert "InfiniBand, active" in rdma.describe(system.facts())[1]
    assert "serves its subnet (GID 0, eth1)" in rdma.describe(system.facts())[1]
    assert rdma.notes(system.facts()) == []


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("library", ("no libibverbs.so.1", "ibverbs-providers")),
        ("container", ("/dev/infiniband", "--device")),
        ("address", ("no address of this host", "BYTEPS_INTERFACES")),
        ("cable", ("the port is down", "cable")),
        ("memlock", ("may lock 64 KiB", "--ulimit memlock=-1", "LimitMEMLOCK=infinity")),
    ],
)
def test_what_keeps_a_device_from_serving_is_named(system, mistake, words) -> None:
    system.device("mlx5_0", state="1: DOWN" if mistake == "cable" else "4: ACTIVE")
    if mistake != "address":
        system.address("mlx5_0")
    if mistake == "library":
        system.library = None
    if mistake == "container":
        (system.root / "dev/infiniband/uverbs0").unlink()
    if mistake == "memlock":
        system.locked = 64 << 10
    found = system.facts()
    (text,) = rdma.notes(found)
    assert "mlx5_0" in text
    assert "is not used" in text
    assert all(word in text for word in words), text
    assert len(rdma.problems(found, "rdma")) == 1
    assert rdma.problems(found, "auto") == []


def test_rdma_in_software_is_told_apart(system) -> None:
    system.device("rxe0", hardware=False)
    system.address("rxe0")
    found = system.facts()
    assert "rxe0:1, in software, " in rdma.describe(found)[1]
    (text,) = rdma.notes(found)
    assert "slower than TCP" in text
    assert rdma.problems(found, "rdma") == []


def test_how_many_connections_the_limit_allows(system) -> None:
    system.device("mlx5_0")
    system.address("mlx5_0")
    system.locked = 8 * MIB
    line = rdma.describe(system.facts())[-1]
    assert "a process may lock 8 MiB, so at most 14 connections" in line
    assert "--ulimit memlock=-1" in line
    assert rdma.notes(system.facts()) == []
