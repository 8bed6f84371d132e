"""What `bps doctor` says of what it has found, part by part, without other machines."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import byteps
from byteps.cli.doctor import machine, report, software, sums
from byteps.cli.doctor.survey import Link, Survey
from byteps.common.errors import UnavailableError

SOFTWARE: dict[str, Any] = {
    "version": "1.2.3",
    "python": "3.12.1",
    "adapters": ["torch", "jax"],
    "features": {"TCP": True, "RDMA": False, "MPI": False, "Gloo": False}
    | {"NCCL": False, "DDL": False, "CCL": False},
    "libraries": {"NCCL": "/lib/libnccl.so.2", "UCX": None},
    "frameworks": dict.fromkeys(software.FRAMEWORKS) | {"torch": "2.13.0", "numpy": "2.0"},
    "rdma_devices": ["mlx5_0", "mlx5_1"],
    "gpus": 8,
    "cuda": {"count": 2, "names": ("A", "B"), "driver": "13.0", "why_none": ""},
    "nccl": {"version": 22809, "text": "2.28.9", "file": "/l/libnccl.so.2", "why_none": ""},
}
MACHINE: dict[str, Any] = {
    "host": "here",
    "system": "Linux 6.1 x86_64",
    "cores": 4,
    "cores_of_machine": 8,
    "cpu_limit": 2.5,
    "numa_nodes": {},
    "numa_on": True,
    "descriptors": 1024,
    "locked_memory_bytes": None,
    "shared_memory_bytes": 64 << 20,
    "addresses": [
        {"interface": "eth0", "addresses": ["10.0.0.1", "fd00::1"], "mbit": 1000, "numa_node": 0},
        {"interface": "eth1", "addresses": ["10.1.0.1"], "mbit": None, "numa_node": None},
    ],
    "address_outwards": "10.0.0.1",
    "congestion_control": "cubic",
    "congestion_controls": ["reno", "cubic"],
}


def test_the_lines_about_software() -> None:
    assert report.describe_software(SOFTWARE) == [
        "byteps-cpp    1.2.3, Python 3.12.1",
        "adapters      torch, jax",
        "built in      TCP",
        "not built in  RDMA, MPI, Gloo, NCCL, DDL, CCL",
        "frameworks    torch 2.13.0, numpy 2.0",
        "not installed tensorflow, keras, mxnet, jax",
        "found here    NCCL /lib/libnccl.so.2; UCX no",
        "devices       8 GPUs, RDMA: mlx5_0, mlx5_1",
        "CUDA          driver 13.0: A, B",
        "NCCL          2.28.9 in /l/libnccl.so.2",
    ]
    no_driver = {"count": 0, "names": (), "driver": "", "why_none": "there is no driver"}
    no_nccl = {"version": 0, "text": "", "file": "", "why_none": "there is no NCCL"}
    bare = {**SOFTWARE, "frameworks": {"torch": None}, "rdma_devices": []}
    bare |= {"cuda": no_driver, "nccl": no_nccl}
    lines = report.describe_software(bare)
    assert "frameworks    none" in lines
    assert "devices       8 GPUs, RDMA: none" in lines
    assert "CUDA          tensors on a GPU go through host memory: there is no driver" in lines
    assert "NCCL          none, and no job needs it: there is no NCCL" in lines
    full = {**SOFTWARE, "frameworks": {"torch": "2"}}
    assert "not installed -" in report.describe_software(full)


def test_the_lines_about_a_machine() -> None:
    assert report.describe_machine(MACHINE) == [
        "machine       here, Linux 6.1 x86_64",
        "cores         4 of 8, limited to 2.5",
        "NUMA nodes    one, or not told; nothing is bound to cores",
        "limits        1024 descriptors, unlimited locked memory, 64 MiB free in /dev/shm",
        "addresses     eth0 10.0.0.1 fd00::1 (1000 Mbit/s, NUMA node 0); eth1 10.1.0.1",
        "outwards      10.0.0.1",
        "TCP           cubic (also reno)",
    ]
    other = {**MACHINE, "cpu_limit": None, "descriptors": None, "addresses": []}
    other |= {"address_outwards": None, "congestion_controls": ["cubic"]}
    other |= {"numa_nodes": {"0": "0-3"}}
    lines = report.describe_machine(other)
    assert lines[1:3] == ["cores         4 of 8", "NUMA nodes    " + lines[2][14:]]
    assert "not told" in lines[2]
    assert lines[3].startswith("limits        unlimited descriptors")
    assert lines[4:] == [
        "addresses     the loopback alone",
        "outwards      no route",
        "TCP           cubic (also nothing else)",
    ]


def test_the_lines_about_a_scheduler() -> None:
    found = {"host": "a", "port": 1, "round_trip_us": 1234.0, "address_here": "10.0.0.1"}
    assert report.describe_scheduler(found) == [
        "scheduler     a, port 1",
        "connecting    1.23 ms",
        "from here     10.0.0.1 (a server announces it)",
        "answer        a scheduler of this version",
    ]
    assert report.describe_scheduler({"host": "a", "port": 1, "problem": "no"}) == [
        "scheduler     a, port 1"
    ]


def test_the_lines_about_several_hosts() -> None:
    links = [Link("a", "b", 1500.0, 940.4, 800.6), Link("b", "a", problem="no")]
    found = Survey(links=links, sum_mbit={"a": 3000.0}, bottleneck="the link")
    assert report.describe_survey(found) == [
        "",
        "from             to                 round trip         socket      push_pull",
        "a                b                     1.50 ms     940 Mbit/s     801 Mbit/s",
        "b                a                           -              -              -",
        "",
        "server of a: one shard takes in 3000 Mbit/s",
        "bottleneck: the link",
    ]
    assert report.describe_problems(["x", "y"], ["z"]) == ["note: z", "problem: x", "problem: y"]


def test_the_build_as_horovodrun_shows_it_to_the_last_line() -> None:
    assert report.check_build(SOFTWARE) == [
        "BytePS v1.2.3:",
        "",
        "Available Frameworks:",
        "    [X] PyTorch",
        "    [ ] TensorFlow",
        "    [ ] Keras",
        "    [ ] MXNet",
        "    [ ] JAX",
        "    [ ] numpy",  # installed, and this build has no adapter
        "",
        "Available Controllers:",
        "    [ ] MPI",
        "    [ ] Gloo",
        "    [X] BytePS",
        "",
        "Available Tensor Operations:",
        "    [ ] NCCL",
        "    [ ] DDL",
        "    [ ] CCL",
        "    [ ] MPI",
        "    [ ] Gloo",
        "    [X] BytePS",
    ]


@pytest.mark.parametrize(
    ("told", "name", "enough", "too_little", "words"),
    [
        (machine.warnings, "descriptors", 1024, 1023, "ulimit -n"),
        (machine.warnings, "descriptors", None, 0, "ulimit -n"),
        (machine.notes, "shared_memory_bytes", 64 << 20, (64 << 20) - 1, "/dev/shm has"),
        (machine.notes, "shared_memory_bytes", None, 0, "/dev/shm has"),
        (machine.notes, "address_outwards", "10.0.0.1", None, "no route"),
    ],
)
def test_a_limit_hurts_below_its_border(told, name, enough, too_little, words) -> None:
    both = (machine.warnings, machine.notes)
    assert [one({**MACHINE, name: enough}) for one in both] == [[], []]
    (text,) = told({**MACHINE, name: too_little})
    assert words in text
    assert sum(len(one({**MACHINE, name: too_little})) for one in both) == 1


def test_limits_that_are_none() -> None:
    before = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, before[1]))
        assert machine._limit(resource.RLIMIT_CORE) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
    if resource.getrlimit(resource.RLIMIT_CPU)[0] == resource.RLIM_INFINITY:
        assert machine._limit(resource.RLIMIT_CPU) is None


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """Return a function that writes files which `machine` finds in place of the kernel's."""
    monkeypatch.setattr(machine, "Path", lambda path: tmp_path / str(path).lstrip("/"))

    def write(path: str, text: str) -> None:
        file = tmp_path / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    return write


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, None),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "250000 100000\n"}, 2.5),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0.5),
        ({"cpu.max": "\n", "cpu/cpu.cfs_quota_us": "5\n", "cpu/cpu.cfs_period_us": "1\n"}, 5.0),
    ],
)
def test_how_many_cores_a_container_may_use(elsewhere, files, cores) -> None:
    for name, text in files.items():
        elsewhere(f"/sys/fs/cgroup/{name}", text)
    assert machine._cpu_limit() == cores


def test_addresses_of_one_link_are_none_for_a_job(elsewhere) -> None:
    assert machine._version_6() == {}
    elsewhere(
        "/proc/net/if_inet6",
        "fe800000000000000000000000000001 02 40 20 80     eth0\n"
        "fd000000000000000000000000000001 02 40 00 80     eth0\n"
        "fd000000000000000000000000000002 02 40 00 80     eth0\n"
        "00000000000000000000000000000001 01 80 10 80       lo\n",
    )
    assert machine._version_6() == {"eth0": ["fd00::1", "fd00::2"]}


def test_what_the_kernel_does_not_say_is_empty(elsewhere) -> None:
    assert machine._kernel("tcp_congestion_control") == ""
    elsewhere("/proc/sys/net/ipv4/tcp_congestion_control", "bbr\n")
    assert machine._kernel("tcp_congestion_control") == "bbr"


def test_the_loopback_is_not_shown() -> None:
    assert all(entry["interface"] != "lo" for entry in machine._addresses())
    assert machine._version_4("lo") == ["127.0.0.1"]
    assert machine._version_4("no-such") == []


def test_the_speed_of_a_card(tmp_path) -> None:
    def card(name: str, mark: str, mbit: str) -> int | None:
        folder = tmp_path / "sys/class/net" / name
        folder.mkdir(parents=True)
        (folder / mark).write_text("")
        (folder / "speed").write_text(mbit)
        return machine.speed(name, tmp_path)

    assert card("bond0", "lower_eth0", "20000\n") == 20000
    assert card("eth0", "device", "-1\n") is None
    assert card("eth1", "device", "0\n") is None
    assert card("eth2", "device", "1\n") == 1
    assert card("eth3", "device", "unknown\n") is None
    assert machine.speed("no-such", tmp_path) is None


# Software.


def test_a_framework_without_an_adapter_is_no_help(monkeypatch) -> None:
    monkeypatch.setattr(software, "adapters", lambda: ["torch"])
    monkeypatch.setattr(software, "_version", lambda names: None)
    monkeypatch.setattr(software, "_program", lambda role: ("/x", ""))
    monkeypatch.setattr(software.installation, "problems", list)
    assert software.warnings({"frameworks": {"torch": "2", "jax": None}}) == []
    for frameworks in ({"torch": None, "jax": "1"}, {}):
        (text,) = software.warnings({"frameworks": frameworks})
        assert text == "none of the frameworks is installed: torch"
    assert software.lacks(["jax", "torch"], {"frameworks": {"jax": "1", "torch": None}}) == [
        "jax",
        "torch",
    ]


def test_the_loader_is_asked_for_libraries(monkeypatch, tmp_path) -> None:
    loader = tmp_path / "ldconfig"
    loader.write_text("#!/bin/sh\necho '2 libs'\necho '\tlibnccl.so.2 (libc6,x86-64) => /l/n'\n")
    loader.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert software._loader_cache() == {"libnccl.so.2": "/l/n"}
    assert software.libraries()["NCCL"] == "/l/n"
    monkeypatch.setattr(software.subprocess, "run", raises(FileNotFoundError()))
    assert software._loader_cache() == {}


def raises(error: Exception):
    """Return a function that raises it."""

    def call(*_: object, **__: object) -> None:
        raise error

    return call


def test_libraries_of_pip_are_found(monkeypatch) -> None:
    class Package:
        def __init__(self, name: str | None, *files: str) -> None:
            self.metadata = {"Name": name}
            self.files = [Path(file) for file in files] or None

        def locate_file(self, path: Path) -> Path:
            return Path("/site") / path

    packages = [Package(None), Package("other", "x/libnccl.so.2"), Package("nvidia-empty")]
    packages.append(Package("nvidia-nccl", "y/README", "y/libnccl.so.2"))
    monkeypatch.setattr(software.metadata, "distributions", lambda: packages)
    assert software._from_pip("libnccl.so.2") == "/site/y/libnccl.so.2"
    assert software._from_pip("libucp.so.0") is None


def test_the_line_about_sums_on_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def foresee(settings: list[str]) -> str:
        asked.append(settings)
        if "local_size=4" in settings:
            return "the ranks of a machine sum in the window: because"
        raise UnavailableError("NVML does not start")

    library = SimpleNamespace(foresee_device_sums=foresee)
    monkeypatch.setitem(sys.modules, "byteps._core", library)
    monkeypatch.setattr(byteps, "_core", library, raising=False)
    assert report.describe_device_sums(sums.foresee_on_gpus(4)) == [
        "sums on GPUs  with a rank for each GPU, the ranks of a machine sum in the window: because"
    ]
    assert {"local_sizes=4,4", "num_server=1", "role=worker"} <= set(asked[0])
    assert sums.foresee_on_gpus(2) == "no forecast, because NVML does not start"
