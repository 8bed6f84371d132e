"""Hosts on this machine for tests: network namespaces that two links join."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

HOSTS = ("a", "b", "c")


class Links:
    """Namespaces whose eth0 and eth1 lead to two bridges, each in a network of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.switch = f"{name}-switch"
        self.spaces = {host: f"{name}-{host}" for host in HOSTS}

    def ip(self, *words: str) -> None:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")

    def make(self) -> None:
        self.ip("netns", "add", self.switch)
        for link in (0, 1):
            self.ip("-n", self.switch, "link", "add", f"br{link}", "type", "bridge")
            self.ip("-n", self.switch, "link", "set", f"br{link}", "up")
        for number, (host, space) in enumerate(self.spaces.items()):
            self.ip("netns", "add", space)
            self.ip("-n", space, "link", "set", "lo", "up")
            for link in (0, 1):
                port, device = f"{host}{link}", f"eth{link}"
                peer = ("type", "veth", "peer", "name", device, "netns", space)
                self.ip("-n", self.switch, "link", "add", port, *peer)
                self.ip("-n", self.switch, "link", "set", port, "master", f"br{link}", "up")
                address = f"10.{90 + link}.0.{number + 1}/24"
                self.ip("-n", space, "address", "add", address, "dev", device)
                self.ip("-n", space, "link", "set", device, "up")

    def remove(self) -> None:
        for space in (self.switch, *self.spaces.values()):
            subprocess.run(["ip", "netns", "delete", space], capture_output=True, check=False)

    def sent(self, host: str) -> list[int]:
        """Return what each link of a host has sent so far."""
        words = ["ip", "netns", "exec", self.spaces[host], "cat"]
        files = [f"/sys/class/net/eth{link}/statistics/tx_bytes" for link in (0, 1)]
        done = subprocess.run([*words, *files], capture_output=True, text=True, check=True)
        return [int(word) for word in done.stdout.split()]


@contextlib.contextmanager
def linked_hosts(name: str) -> Iterator[Links]:
    """Make the hosts, and remove them in the end; or skip where none can be made."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need root and ip (Debian: iproute2)")
    made = Links(f"{name}{os.getpid()}")
    try:
        made.make()
    except OSError as error:
        made.remove()
        pytest.skip(f"no network namespaces with links can be made here: {error}")
    yield made
    made.remove()
