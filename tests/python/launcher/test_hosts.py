"""Hosts of a job: how they are named, and what each of them runs."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from byteps.cli import agent, local_job
from byteps.cli.hosts import Host, fill, read_hostfile, read_hosts, real_name
from byteps.cli.ports import JobPorts
from byteps.cli.remote_job import (
    RemoteOptions,
    agent_command,
    carried_environment,
    job_variables,
    placed,
    root_address,
)
from byteps.common.errors import InvalidArgumentError, UnavailableError


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
    assert fill(hosts, 3) == [Host("a", 2), Host("b", 1)]
    assert fill([Host("a", 1), Host("b", 3)], None) == [Host("a", 1), Host("b", 3)]


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


def test_the_user_has_the_first_word_about_ssh(monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "")
    python = f"{sys.executable} -m byteps.cli.agent"
    command = agent_command("a", False, ["ssh", "-o", "ConnectTimeout=1"])
    assert command[:3] == ["ssh", "-o", "ConnectTimeout=1"]
    assert command[3:-4] == [
        *("-o", "BatchMode=yes", "-o", "ConnectTimeout=15"),
        *("-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3"),
    ]
    assert command[-4:] == ["-T", "--", "a", python]
    assert agent_command("a", True, ["ssh"]) == python.split()
    monkeypatch.setenv("PYTHONPATH", "/x::/y z")
    assert agent_command("a", False, ["ssh"])[-1] == f"env 'PYTHONPATH=/x:/y z' {python}"


def test_workers_of_several_hosts_have_numbers_by_machine() -> None:
    parts = placed([Host("a", 2), Host("b", 2)], RemoteOptions(servers=0))
    assert [part.label for part in parts] == ["host a", "host b"]
    rows = [one for part in parts for one in part.processes]
    assert [one["rank"] for one in rows] == [0, 1, 2, 3]
    assert [one["environment"]["DMLC_WORKER_ID"] for one in rows] == ["0", "0", "1", "1"]
    assert [one["environment"]["BYTEPS_LOCAL_RANK"] for one in rows] == ["0", "1", "0", "1"]


def test_hosts_may_have_different_numbers_of_workers() -> None:
    hosts = [Host("a", 1), Host("b", 2), Host("c", 1)]
    parts = placed(hosts, RemoteOptions(servers=0))
    rows = [one for part in parts for one in part.processes]
    assert [one["rank"] for one in rows] == [0, 1, 2, 3]
    assert [one["label"] for one in rows] == [
        "a worker 0",
        "b worker 1",
        "b worker 2",
        "c worker 3",
    ]
    assert [one["environment"]["DMLC_WORKER_ID"] for one in rows] == ["0", "1", "1", "2"]
    assert [one["environment"]["BYTEPS_LOCAL_RANK"] for one in rows] == ["0", "0", "1", "0"]
    assert [one["environment"]["BYTEPS_LOCAL_SIZE"] for one in rows] == ["1", "2", "2", "1"]
    told = job_variables(hosts, 3, "10.0.0.1", JobPorts())
    assert (told["DMLC_NUM_WORKER"], told["BYTEPS_LOCAL_SIZES"]) == ("3", "1,2,1")
    assert "BYTEPS_LOCAL_SIZE" not in told, "each worker has its own"
    assert "BYTEPS_LOCAL_SIZES" not in carried_environment({"BYTEPS_LOCAL_SIZES": "2,1"})


def test_servers_have_numbers_and_their_hosts_a_name() -> None:
    first, second, *_ = placed([Host("a", 1), Host("b", 1)], RemoteOptions())
    assert first.label == "the servers of host a"
    assert first.processes[1]["environment"] == {"DMLC_RANK": "0"}
    assert second.processes[0]["environment"] == {"DMLC_RANK": "1"}
    assert first.processes[0]["rank"] is None


def test_one_host_with_servers_elsewhere_has_them() -> None:
    assert labels([Host("a", 2)], server_hosts=["c"]) == [
        ("scheduler", ["a scheduler"]),
        ("server", ["c server 0"]),
        ("worker", ["a worker 0", "a worker 1"]),
    ]


def test_what_describes_the_job(monkeypatch) -> None:
    monkeypatch.delenv("BYTEPS_JOB_SECRET", raising=False)
    hosts = [Host("a", 3), Host("b", 3)]
    one = job_variables(hosts, 2, "10.0.0.1", JobPorts())
    other = job_variables(hosts, 0, "127.0.0.1", JobPorts())
    assert one["DMLC_NUM_WORKER"] == "2"
    assert one["BYTEPS_LOCAL_SIZE"] == "3"
    assert (one["DMLC_NUM_SERVER"], one["BYTEPS_FORCE_DISTRIBUTED"]) == ("2", "1")
    assert (other["DMLC_NUM_SERVER"], other["BYTEPS_FORCE_DISTRIBUTED"]) == ("0", "0")
    assert one["DMLC_PS_ROOT_URI"] == "10.0.0.1"
    for name in ("BYTEPS_JOB_ID", "BYTEPS_JOB_SECRET"):
        assert one[name] != other[name]
    assert len(one["BYTEPS_JOB_SECRET"]) == 32
    monkeypatch.setenv("BYTEPS_JOB_SECRET", "mine")
    assert job_variables(hosts, 2, "10.0.0.1", JobPorts())["BYTEPS_JOB_SECRET"] == "mine"


def ssh_that_says(tmp_path, text: str) -> list[str]:
    program = tmp_path / "ssh"
    program.write_text(f"#!/bin/sh\nprintf '{text}'\n")
    program.chmod(0o755)
    return [str(program)]


def test_the_name_behind_an_alias_is_asked_of_ssh(tmp_path) -> None:
    says = ssh_that_says(tmp_path, "user me\\nhostname 10.0.0.7\\nport 22\\n")
    assert real_name("me@alias", says) == "10.0.0.7"
    assert real_name("me@alias", ssh_that_says(tmp_path, "")) == "alias"
    with pytest.raises(UnavailableError, match="no-such-ssh is not installed"):
        real_name("a", ["no-such-ssh"])
    assert real_name("me@a", ["/"]) == "a", "what cannot be run knows no aliases"


def test_the_first_host_is_met_where_the_others_reach_it(tmp_path) -> None:
    ssh = ssh_that_says(tmp_path, "hostname 127.0.0.5\\n")
    here = Host("localhost", 1)
    assert here.is_this_machine
    assert root_address([Host("far", 1), here], ["far"], ssh) == "127.0.0.5"
    assert root_address([here], [], ssh) == "127.0.0.1"
    assert root_address([here, Host("far", 1)], ["far"], ssh).startswith("127.0.0.")
    nowhere = ssh_that_says(tmp_path, "hostname no.such.host.invalid\\n")
    with pytest.raises(UnavailableError, match=r"no\.such\.host\.invalid cannot be found"):
        root_address([here, Host("far", 1)], ["far"], nowhere)


def test_an_agent_gives_each_process_its_part_of_the_environment(monkeypatch) -> None:
    monkeypatch.setattr(local_job, "find_program", lambda role: f"/programs/bps-{role}")
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(8)))
    task: dict[str, Any] = {
        "environment": {"A": "job", "B": "job"},
        "command": ["python", "x.py"],
        "processes": [
            {"role": "worker", "label": "a worker 4", "rank": 4, "environment": {"B": "own"}},
            {"role": "worker", "label": "a worker 5", "rank": 5, "environment": {}},
            {"role": "server", "label": "a server 0", "rank": None, "environment": {}},
        ],
    }
    here = {"A": "host", "C": "host", "BYTEPS_NUMA_ON": "0"}
    first, second, server = agent.specs(task, here)
    assert [first.environment[name] for name in "ABC"] == ["job", "own", "host"]
    assert second.environment["B"] == "job"
    assert (first.rank, second.rank, server.rank) == (4, 5, None)
    assert [one.environment["DMLC_ROLE"] for one in (first, second, server)] == [
        *("worker", "worker", "server")
    ]
    assert [one.environment.get("OMP_NUM_THREADS") for one in (first, server)] == ["4", "4"]
    assert list(first.arguments) == ["python", "x.py"]
    assert list(server.arguments) == ["/programs/bps-server"]
    (alone,) = agent.specs({**task, "processes": task["processes"][2:]}, here)
    assert "OMP_NUM_THREADS" not in alone.environment
