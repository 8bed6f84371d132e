"""`bps bench --hosts` over a real sshd."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import job_runs
import pytest
import ssh_server
import torch_jobs
from processes import command_line, finish

from byteps.cli.bench import report

environment = job_runs.environment
pytestmark = [torch_jobs.needs_torch, pytest.mark.engine("sshd")]


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[ssh_server.SshServer]:
    running = ssh_server.SshServer(tmp_path_factory.mktemp("ssh"))
    yield running
    running.stop()


def bench(environment, server, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command_line("byteps.cli", "bench", "--ssh", server.ssh, *arguments),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_hosts_are_measured_beside_gloo_and_the_link(environment, server, tmp_path) -> None:
    file = tmp_path / "bench.json"
    arguments = ("--sizes", "4K,1M", "--repeats", "1", "--json", str(file))
    process = bench(environment, server, "--hosts", "127.0.0.2:2,127.0.0.3:1", *arguments)
    code, out, err = finish(process)
    assert code == 0, out + err
    told = json.loads(file.read_text())
    assert (told["workers"], told["servers"]) == ([2, 1], [1, 1])
    begin, *sizes = told["results"]
    assert (begin["workers"], begin["machines"], begin["link_loads"]) == (3, 2, 1.0)
    assert "3 workers on 2 machines, 2 servers; byteps.torch, torch" in out
    assert [one["bytes"] for one in sizes] == [4096, 1 << 20]
    for one in sizes:
        assert set(one["seconds"]) == {"in_place", "new_tensor", "gloo"}
        assert one["link_problem"] == ""
        assert one["bound_s"] >= one["link"]["round_trip_s"]
        assert report.describe_size(one) in out.splitlines()
    assert "the slowest link carried" in out


def test_servers_on_a_host_of_their_own(environment, server) -> None:
    hosts = ("--hosts", "127.0.0.2,127.0.0.3", "--server-hosts", "127.0.0.4")
    process = bench(environment, server, *hosts, "--sizes", "4K", "--repeats", "1", "--no-gloo")
    code, out, err = finish(process)
    assert code == 0, out + err
    assert "2 workers on 2 machines, 1 server; " in out


def test_a_host_that_does_not_answer_is_named(environment, server) -> None:
    process = bench(environment, server, "--hosts", "127.0.0.2,127.0.0.9", "--sizes", "4K")
    code, _, err = finish(process)
    assert code == 255
    assert "127.0.0.9: ssh could not connect" in err
