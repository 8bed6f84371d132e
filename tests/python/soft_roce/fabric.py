"""The four hosts of the virtual machine in which the lane `rdma` runs (tools/rdma_vm/fabric.sh)."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
DEVICES = Path("/sys/class/infiniband")
ROCE_PORT = "4791"
HOSTS = (1, 2, 3, 4)


def is_here() -> bool:
    """Whether this is that virtual machine."""
    return (DEVICES / "rxe4").is_dir() and Path("/tmp/job/guest.sh").is_file()


def address(host: int) -> str:
    return f"10.20.0.{host}"


def interface(host: int) -> str:
    return f"r{host}"


def device(host: int) -> str:
    return f"rxe{host}"


def packets_of(host: int) -> int:
    """Return how many packets of RDMA a host has sent so far."""
    return int((DEVICES / device(host) / "ports/1/hw_counters/sent_pkts").read_text())


def packets() -> int:
    return sum(packets_of(host) for host in HOSTS)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"


def pull_cable(host: int) -> None:
    """Take the link of a host down: its port of the switch, so the interface has no carrier."""
    _run("ip", "link", "set", f"p{host}", "down")


def plug_cable(host: int) -> None:
    """Take the link up again, and wait for the device."""
    _run("ip", "link", "set", f"p{host}", "up")
    state = DEVICES / device(host) / "ports/1/state"
    deadline = time.monotonic() + 30
    while "ACTIVE" not in state.read_text():
        assert time.monotonic() < deadline, state.read_text()
        time.sleep(0.05)


def drop_rdma(host: int) -> None:
    """Let a firewall drop what a host sends to the port of RoCE; all else passes."""
    _run("tc", "qdisc", "add", "dev", interface(host), "clsact")
    match = ["match", "ip", "protocol", "17", "0xff", "match", "ip", "dport", ROCE_PORT, "0xffff"]
    where = ["dev", interface(host), "egress", "protocol", "ip"]
    _run("tc", "filter", "add", *where, "u32", *match, "action", "drop")


def pass_rdma(host: int) -> None:
    """End drop_rdma; nothing happens if there is no firewall."""
    subprocess.run(
        ["tc", "qdisc", "del", "dev", interface(host), "clsact"], capture_output=True, check=False
    )
