"""Hosts of a job: how they are named, and what each of them runs."""

from __future__ import annotations

import pytest

from byteps.cli.hosts import Host, fill, read_hostfile, read_hosts
from byteps.cli.remote_job import RemoteOptions, agent_command, carried_environment, placed
from byteps.common.errors import InvalidArgumentError


def test_a_list_of_hosts() -> None:
    assert read_hosts("a:2, b:3,c") == [Host("a", 2), Host("b", 3), Host("c", 1)]
    assert read_hosts("user@a:2,[fd00::1]:4") == [Host("user@a", 2), Host("fd00::1", 4)]


@pytest.mark.parametrize("bad", ["a:0", "a:x", "a b:2", ":2", "-oProxyCommand=x:2", "a:2000", "$x"])
def test_a_bad_host_is_refused(bad) -> None:
    with pytest.raises(InvalidArgumentError, match="a host is NAME:N"):
        read_hosts(bad)


def test_a_host_twice_and_no_host_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="names a twice"):
        read_hosts("a:1,a:2")
    with pytest.raises(InvalidArgumentError, match="names no host"):
        read_hosts(" , ")


def test_a_file_of_hosts(tmp_path) -> None:
    path = tmp_path / "hosts"
    path.write_text("# two\na slots=2\n\nb:2 # the second\nc\n")
    assert read_hostfile(str(path)) == [Host("a", 2), Host("b", 2), Host("c", 1)]
    path.write_text("a slots 2\n")
    with pytest.raises(InvalidArgumentError, match=r"hosts:1: a line is NAME slots=N"):
        read_hostfile(str(path))
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        read_hostfile(str(tmp_path / "none"))


def test_hosts_are_filled_in_their_order() -> None:
    hosts = [Host("a", 2), Host("b", 2)]
    assert fill(hosts, None) == hosts
    assert fill(hosts, 2) == [Host("a", 2)]
    with pytest.raises(InvalidArgumentError, match="room for 4 workers"):
        fill(hosts, 5)
    with pytest.raises(InvalidArgumentError, match=r"different numbers of workers \(a 2, b 1\)"):
        fill(hosts, 3)


def labels(hosts: list[Host], **options) -> list[tuple[str, list[str]]]:
    parts = placed(hosts, RemoteOptions(**options))
    return [(part.role, [one["label"] for one in part.processes]) for part in parts]


def test_each_host_has_a_server_and_the_first_one_the_scheduler() -> None:
    assert labels([Host("a", 2), Host("b", 2)]) == [
        ("scheduler", ["a scheduler", "a server 0"]),
        ("server", ["b server 1"]),
        ("worker", ["a worker 0", "a worker 1"]),
        ("worker", ["b worker 2", "b worker 3"]),
    ]


def test_servers_on_hosts_of_their_own() -> None:
    assert labels([Host("a", 1), Host("b", 1)], servers=3, server_hosts=["c", "d"]) == [
        ("scheduler", ["a scheduler"]),
        ("server", ["c server 0", "c server 2"]),
        ("server", ["d server 1"]),
        ("worker", ["a worker 0"]),
        ("worker", ["b worker 1"]),
    ]


def test_workers_of_one_host_need_no_server() -> None:
    assert labels([Host("a", 2)]) == [("worker", ["a worker 0", "a worker 1"])]


def test_what_belongs_to_this_machine_stays_here() -> None:
    mine = {"HOME": "/root", "SSH_AUTH_SOCK": "x", "BASH_FUNC_f%%": "() {", "DMLC_ROLE": "server"}
    assert carried_environment({**mine, "LR": "0.1", "PATH": "/bin"}) == {
        "LR": "0.1",
        "PATH": "/bin",
    }


def test_no_secret_is_on_a_command_line() -> None:
    command = agent_command("a", False, ["ssh", "-p", "22"])
    assert command[:3] == ["ssh", "-p", "22"]
    assert command[-2] == "a"
    assert "SECRET" not in " ".join(command)
