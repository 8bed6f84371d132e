"""Jobs of several hosts with a firewall in front of one of them."""

from __future__ import annotations

import re
import subprocess
import sys

import job_runs
import pytest
import torch_jobs
from linked_hosts import Links, linked_hosts
from processes import LIMIT_S, finish

environment = job_runs.environment
pytestmark = torch_jobs.needs_torch

# Long enough for a server to join twice, with ten seconds each time until it is lost.
PROGRAM = """
import time
import numpy as np
import byteps.numpy as bps
bps.init()
for step in range(70):
    time.sleep(0.5)
    total = bps.push_pull(np.ones(1024, np.float32), name="gradient", average=False)
    assert (total == 2).all()
print("all right", flush=True)
"""
HOSTS = {"node-a": ("a", "10.90.0.1"), "node-b": ("b", "10.90.0.2")}
# In place of ssh: runs the command in the network of the host. "-G" asks for the host's address.
SSH = """
import os, sys
addresses, spaces = {addresses!r}, {spaces!r}
words = sys.argv[1:]
if words[0] == "-G":
    print("hostname", addresses[words[1]])
    sys.exit()
host, command = words[words.index("--") + 1 :]
os.execvp("ip", ["ip", "netns", "exec", spaces[host], "sh", "-c", command])
"""


# On a busy machine the cause comes long after those who heard of it.
LAUNCHER = f"""
from byteps.cli import first_cause, main
first_cause._WINDOW_OF_THOSE_WHO_HEARD_S = {LIMIT_S}
main.main()
"""


@pytest.fixture
def links():
    """The hosts, or a skip where none can be made."""
    with linked_hosts("bpsfw") as made:
        yield made


def drop_what_comes_in(links: Links, host: str, ports: str) -> None:
    """Let a host drop packets to these TCP ports that come from others."""
    space = links.spaces[host]
    # The rules of routing have no place before the one for the host's own addresses.
    links.ip("-n", space, "rule", "add", "pref", "100", "lookup", "local")
    links.ip("-n", space, "rule", "del", "pref", "0")
    words = ("iif", "eth0", "ipproto", "tcp", "dport", ports, "blackhole")
    links.ip("-n", space, "rule", "add", "pref", "10", *words)


def run(links, environment, tmp_path, *arguments: str, **more: str) -> tuple[int, str, str]:
    ssh = tmp_path / "ssh.py"
    addresses = {name: address for name, (_, address) in HOSTS.items()}
    spaces = {name: links.spaces[host] for name, (host, _) in HOSTS.items()}
    ssh.write_text(SSH.format(addresses=addresses, spaces=spaces))
    launcher = [sys.executable, "-c", LAUNCHER, "run", "--ssh", f"{sys.executable} {ssh}"]
    hosts = ["--hosts", ",".join(HOSTS), "--ports", "21000-21009"]
    process = subprocess.Popen(
        [*launcher, *hosts, *arguments, sys.executable, "-c", PROGRAM],
        env={**environment, **more},
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return finish(process)


def test_a_server_that_no_worker_reaches_is_left_out(links, environment, tmp_path) -> None:
    drop_what_comes_in(links, "b", "21000-21009")
    code, out, err = run(links, environment, tmp_path)
    assert code == 0, out + err
    assert out.count("all right") == 2, out + err
    assert re.search(
        r"cannot connect to 10\.90\.0\.2:(\d+): Connection timed out; is there a firewall\? "
        r"'bps doctor --hosts A,B --port \1' tries the way",
        err,
    ), err
    assert "worker 0 has never reached this server at 10.90.0.2:" in err
    assert "restarting" not in err
    last = "[bps] ended with 1 of 2 servers; lost: the servers of host node-b"
    assert err.splitlines()[-1] == last, err


def test_a_firewall_before_the_scheduler_is_named_in_the_last_line(
    links, environment, tmp_path
) -> None:
    drop_what_comes_in(links, "a", "21000-21009")
    code, out, err = run(links, environment, tmp_path, BYTEPS_START_TIMEOUT="25")
    assert code == 1, out + err
    assert "waiting: cannot reach the scheduler" in err, err
    last = err.splitlines()[-1]
    assert last.startswith("[bps] node-b worker 1 ended with exit code 1 (UnavailableError: "), err
    assert "cannot reach the scheduler at 10.90.0.1:21000" in last
