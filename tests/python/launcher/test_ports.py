"""The ports of a job on several hosts."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import free_ports

from byteps.cli.ports import (
    JobPorts,
    free_port,
    job_ports,
    quiet_ports,
    read_ports,
    take_for_servers,
)
from byteps.common.errors import InvalidArgumentError, UnavailableError


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_free_ports_lie_below_those_of_outgoing_connections() -> None:
    assert quiet_ports("32768\t60999\n") == range(20000, 30000)
    assert quiet_ports("15000 65535") == range(5000, 15000)
    assert quiet_ports("5000 65535") == range(1024, 5000)
    assert not quiet_ports("1024 65535"), "no room"
    here = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    below = quiet_ports(here) or range(65536)
    assert all(free_port() in below for _ in range(20))


def test_a_free_port_is_one_that_nobody_listens_on(taken, monkeypatch) -> None:
    free = free_ports(3)
    monkeypatch.setattr("byteps.cli.ports.quiet_ports", lambda _: [taken, *free])
    assert {free_port() for _ in range(100)} == set(free), "two jobs choose different ones"
    monkeypatch.setattr("byteps.cli.ports.quiet_ports", lambda _: [taken])
    assert free_port() != taken, "the system chooses another one"


def test_each_test_gets_ports_of_its_own(taken, monkeypatch, tmp_path) -> None:
    assert len({*free_ports(3), *free_ports(3)}) == 6
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr("processes._ports_of_tests", lambda: range(taken, taken + 20))
    found = [port for _ in range(3) for port in free_ports(2)]
    assert len(set(found)) == 6
    assert taken not in found, "somebody listens there"


def test_a_range_of_ports() -> None:
    assert read_ports("20000-20010") == range(20000, 20011)
    assert read_ports(" 1-65535 ") == range(1, 65536)
    for bad in ("", "20000", "20010-20000", "0-5", "1-65536", "a-b", "-5--1"):
        with pytest.raises(InvalidArgumentError, match="it is FIRST-LAST, such as 20000-20010"):
            read_ports(bad)


def test_who_gets_which_port() -> None:
    ports = job_ports(range(20000, 20005), {"DMLC_PS_ROOT_PORT": "9000"}, 2, False)
    assert (ports.scheduler, ports.torch) == (20000, 20001)
    assert ports.of_servers == [20002, 20003, 20004]
    words = "--ports 20000-20002 has 3 ports, and the job needs 4 on a host"
    with pytest.raises(InvalidArgumentError, match=words):
        job_ports(range(20000, 20003), {}, 2, False)


def test_the_variables_count_without_the_flag() -> None:
    assert job_ports(None, {}, 1, True) == JobPorts()
    told = {"DMLC_PS_ROOT_PORT": "9000", "DMLC_PORT": "9001"}
    assert job_ports(None, told, 2, True) == JobPorts(9000, None, range(9001, 9003))
    for bad in ("x", "-1", "65536"):
        with pytest.raises(InvalidArgumentError, match=f"DMLC_PORT is '{bad}'"):
            job_ports(None, {"DMLC_PORT": bad}, 1, True)


def test_ports_of_this_machine_that_are_taken_are_left_out(taken) -> None:
    ports = job_ports(range(taken, taken + 6), {}, 1, True)
    assert ports.scheduler is not None
    assert ports.scheduler > taken
    assert job_ports(range(taken, taken + 6), {}, 1, False).scheduler == taken
    assert taken not in take_for_servers(range(taken, taken + 6), 1, 0)
    with pytest.raises(UnavailableError, match=r"0 are free on this host, and the job needs 1"):
        take_for_servers(range(taken, taken + 1), 1, 3)


def test_servers_of_several_hosts_look_for_different_ports_first() -> None:
    ports = free_ports(10)
    taken = [take_for_servers(ports, 2, first) for first in (0, 2, 11)]
    assert len({port for pair in taken[:2] for port in pair}) == 4
    assert all(port in ports for pair in taken for port in pair)
