"""Which cores the workers of a machine run on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import job_runs
import pytest
from processes import command_line, finish, launch

from byteps.cli.cores import (
    format_cores,
    node_of_interface,
    nodes,
    parse_cores,
    worker_cores,
)
from byteps.cli.doctor import machine as doctor
from byteps.cli.doctor import report
from byteps.common.errors import InvalidArgumentError

environment = job_runs.environment
ALL = range(16)
SHOWS = "import os; print('cores', sorted(os.sched_getaffinity(0)))"


class Machine:
    """Files as the kernel has them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    def node(self, number: int, cores: str) -> None:
        self.write(f"sys/devices/system/node/node{number}/cpulist", cores)

    def siblings(self, first: int, second: int) -> None:
        for core in (first, second):
            folder = f"sys/devices/system/cpu/cpu{core}/topology"
            self.write(f"{folder}/thread_siblings_list", f"{first},{second}")

    def cores(self, workers: int, **variables: str) -> list[str] | None:
        shares = worker_cores(workers, variables, ALL, self.root)
        return None if shares is None else [format_cores(share) for share in shares]


@pytest.fixture
def machine(tmp_path) -> Machine:
    """Two nodes with eight cores each."""
    made = Machine(tmp_path)
    made.node(0, "0-7")
    made.node(1, "8-15")
    return made


def test_lists_of_cores() -> None:
    assert parse_cores("1,4-5, 7-9") == [1, 4, 5, 7, 8, 9]
    assert format_cores([9, 1, 4, 5, 7, 8]) == "1,4-5,7-9"
    for wrong in ("", "a", "3-1", "-1", "1-", "1:2", "70000"):
        with pytest.raises(ValueError, match=r"^.*$"):
            parse_cores(wrong)


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        (2, ["0-7", "8-15"]),
        (3, ["0-7", "8-11", "12-15"]),
        (4, ["0-3", "4-7", "8-11", "12-15"]),
        (5, ["0-3", "4-7", "8-10", "11-13", "14-15"]),
    ],
)
def test_each_worker_has_cores_of_one_node(machine, workers, expected) -> None:
    assert machine.cores(workers) == expected


def test_fewer_workers_than_nodes_have_whole_nodes(tmp_path) -> None:
    made = Machine(tmp_path)
    for number in range(4):
        made.node(number, f"{4 * number}-{4 * number + 3}")
    assert made.cores(2) == ["0-7", "8-15"]
    assert made.cores(3) == ["0-3", "4-7", "8-15"]


def test_nobody_is_bound_where_nothing_is_gained(machine, tmp_path) -> None:
    assert machine.cores(1) is None
    one = Machine(tmp_path / "one")
    one.node(0, "0-15")
    assert one.cores(4) is None
    assert Machine(tmp_path / "hidden").cores(4) is None


def test_more_workers_than_cores_are_not_bound(machine) -> None:
    assert machine.cores(17) is None


@pytest.mark.parametrize("off", ["0", "off", "false"])
def test_it_can_be_switched_off(machine, off) -> None:
    assert machine.cores(2, BYTEPS_NUMA_ON=off) is None
    assert machine.cores(2, BYTEPS_NUMA_ON=off, BYTEPS_VISIBLE_CPU_CORES="0:1") is None
    assert machine.cores(2, BYTEPS_NUMA_ON="1") == ["0-7", "8-15"]


def test_lists_of_the_user(machine) -> None:
    told = "1,4-5,7-11,12:20-25"
    assert machine.cores(2, BYTEPS_VISIBLE_CPU_CORES=told) == ["1,4-5,7-12", "20-25"]
    assert machine.cores(1, BYTEPS_VISIBLE_CPU_CORES=told) == ["1,4-5,7-12"]
    with pytest.raises(InvalidArgumentError, match="has 2 lists of cores, and this machine has 3"):
        machine.cores(3, BYTEPS_VISIBLE_CPU_CORES=told)
    with pytest.raises(InvalidArgumentError, match="'x' in it is no list of cores"):
        machine.cores(1, BYTEPS_VISIBLE_CPU_CORES="1,x")


def test_cores_to_avoid(machine) -> None:
    assert machine.cores(2, BYTEPS_CPU_BLACKLIST="0,8-11") == ["1-7", "12-15"]
    assert machine.cores(2, BYTEPS_CPU_BLACKLIST="-1") == ["0-7", "8-15"]
    with pytest.raises(InvalidArgumentError, match="BYTEPS_CPU_BLACKLIST"):
        machine.cores(2, BYTEPS_CPU_BLACKLIST="0,b")


def test_whoever_names_cores_or_numbers_is_bound_on_one_node_too(tmp_path) -> None:
    one = Machine(tmp_path)
    one.node(0, "0-15")
    assert one.cores(1, BYTEPS_CPU_BLACKLIST="3") == ["0-2,4-15"]
    assert one.cores(2, BYTEPS_NUMA_DEFAULT_QUOTA="3") == ["0-2", "8-10"]


def test_quotas_are_physical_cores(machine) -> None:
    for core in range(4):
        machine.siblings(core, core + 4)
        machine.siblings(core + 8, core + 12)
    assert machine.cores(4) == ["0-1,4-5", "2-3,6-7", "8-9,12-13", "10-11,14-15"]
    assert machine.cores(2, BYTEPS_NUMA_DEFAULT_QUOTA="3") == ["0-2,4-6", "8-10,12-14"]
    assert machine.cores(2, BYTEPS_NUMA_ROOT_QUOTA="1") == ["0,4", "8-15"]
    one_thread = {"BYTEPS_NUMA_DEFAULT_QUOTA": "3", "BYTEPS_MULTITHREADED_CPU": "0"}
    assert machine.cores(2, **one_thread) == ["0-2", "8-10"]
    with pytest.raises(InvalidArgumentError, match="BYTEPS_NUMA_ROOT_QUOTA is 'many'"):
        machine.cores(2, BYTEPS_NUMA_ROOT_QUOTA="many")


def test_the_carrier_is_near_the_network(machine) -> None:
    """Local rank 0 has the connections of the whole machine."""
    machine.write("sys/class/net/eth0/device/numa_node", "0")
    machine.write("sys/class/net/eth1/device/numa_node", "1")
    machine.write("proc/net/route", "Iface\tDestination\neth1\t00000000\t0100000A")
    assert machine.cores(2) == ["8-15", "0-7"]
    routes = "Iface\tDestination\neth0\t0000000A\t0\neth0\neth1\t00000000\t0100000A"
    machine.write("proc/net/route", routes)
    assert machine.cores(2) == ["8-15", "0-7"], "only the default route leads to all networks"
    assert machine.cores(2, BYTEPS_INTERFACES="eth0,eth1") == ["0-7", "8-15"]
    assert machine.cores(2, BYTEPS_INTERFACES="veth0") == ["0-7", "8-15"]


def test_only_cores_that_may_be_used_count(machine) -> None:
    assert [node.number for node in nodes([3, 4, 5], machine.root)] == [0]
    shares = worker_cores(2, {}, [6, 7, 8, 9], machine.root)
    assert shares == [[6, 7], [8, 9]]
    assert worker_cores(2, {}, [3, 4, 5], machine.root) is None


def test_the_doctor_shows_nodes_and_cards(machine) -> None:
    machine.write("sys/class/net/eth0/device/numa_node", "1")
    machine.write("sys/class/net/eth0/speed", "25000")
    machine.write("sys/class/net/veth0/speed", "10000")
    assert doctor.numa_nodes(machine.root) == {"0": "0-7", "1": "8-15"}
    assert doctor.speed("eth0", machine.root) == 25000
    assert doctor.speed("veth0", machine.root) is None
    card = {
        "interface": "eth0",
        "addresses": ["10.0.0.1"],
        "mbit": doctor.speed("eth0", machine.root),
        "numa_node": node_of_interface("eth0", machine.root),
    }
    found = {
        **doctor.facts(),
        "numa_nodes": doctor.numa_nodes(machine.root),
        "addresses": [card],
    }
    text = "\n".join(report.describe_machine({**found, "numa_on": True}))
    assert "0: cores 0-7; 1: cores 8-15; workers, and lanes and shards near" in text
    assert "eth0 10.0.0.1 (25000 Mbit/s, NUMA node 1)" in text
    off = "\n".join(report.describe_machine({**found, "numa_on": False}))
    assert "BYTEPS_NUMA_ON=0, so nothing is bound" in off


def shown(environment, *options: str, **variables: str) -> tuple[list[str], str]:
    command = command_line("byteps.cli", "run", *options, sys.executable, "-c", SHOWS)
    code, out, err = finish(launch(command, {**environment, **variables}))
    assert code == 0, out + err
    return sorted(out.splitlines()), err


def test_workers_run_on_their_cores_and_the_launcher_says_so(environment) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    first, last = allowed[0], allowed[-1]
    told = f"{first}:{last}"
    out, err = shown(environment, "-np", "2", BYTEPS_VISIBLE_CPU_CORES=told)
    assert out == [f"[worker 0] cores [{first}]", f"[worker 1] cores [{last}]"]
    assert f"workers are bound to cores (--numa off to leave them): worker 0 on {first}; " in err


def test_numa_off_leaves_them(environment) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    out, err = shown(environment, "--numa", "off", "-np", "2", BYTEPS_VISIBLE_CPU_CORES="0:0")
    assert out == [f"[worker {rank}] cores {allowed}" for rank in (0, 1)]
    assert "bound" not in err


def test_cores_that_the_system_does_not_give_change_nothing(environment) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    out, _ = shown(environment, "-np", "2", BYTEPS_VISIBLE_CPU_CORES="60000:60001")
    assert out == [f"[worker {rank}] cores {allowed}" for rank in (0, 1)]
