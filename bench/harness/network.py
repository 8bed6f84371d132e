"""The lab: hosts as network namespaces around one bridge, each link limited in both directions."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from harness.programs import BenchError, Place

SUBNETS = ("10.77.0", "10.78.0", "10.79.0", "10.80.0")  # of the links of a host
SUBNET = SUBNETS[0]
PREFIX = "bpslab"


@dataclass(frozen=True)
class LinkOptions:
    """What every host's link is like."""

    mbit: int
    mtu: int = 1500
    burst_kb: int = 256
    queue_ms: int = 20
    congestion: str = "cubic"
    links: int = 1  # of each host, each in a network of its own


def ip(*words: str) -> str:
    """Run a command of iproute2."""
    return _run("ip", *words)


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


@dataclass
class Host:
    """One namespace with a link to each network; the first one has the address and the port."""

    namespace: str
    port: str
    address: str
    links: int = 1

    @property
    def place(self) -> Place:
        """Return where programs of this host run."""
        return Place(("ip", "netns", "exec", self.namespace))

    @property
    def interfaces(self) -> list[str]:
        """Return the names of the links."""
        return [f"eth{link}" for link in range(self.links)]

    def received_bytes(self, interfaces: Sequence[str] = ()) -> int:
        """Return what has come in over the links so far, headers included."""
        links = json.loads(ip("-n", self.namespace, "-s", "-j", "link", "show"))
        wanted = interfaces or self.interfaces
        return sum(
            int(link["stats64"]["rx"]["bytes"]) for link in links if link["ifname"] in wanted
        )


class Network:
    """The bridge and its hosts; everything is gone when the context ends."""

    def __init__(self, hosts: int, options: LinkOptions) -> None:
        self._count = hosts
        self._options = options
        self._id = f"{PREFIX}{os.getpid()}"
        self.bridge = f"{self._id}-bridge"
        self._namespaces: list[str] = []
        self.hosts: list[Host] = []

    def __enter__(self) -> Network:
        try:
            self._build()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()

    def _build(self) -> None:
        self._add_namespace(self.bridge)
        for link in range(self._options.links):
            bridge = f"br{link}"
            ip("-n", self.bridge, "link", "add", bridge, "type", "bridge")
            ip("-n", self.bridge, "link", "set", bridge, "mtu", str(self._options.mtu), "up")
        self._spare_filters()
        for i in range(self._count):
            self._add_host(i)

    def _spare_filters(self) -> None:
        """Keep bridged packets out of the machine's firewall: a switch has none."""
        switch = "/proc/sys/net/bridge/bridge-nf-call-"
        for family in ("iptables", "ip6tables", "arptables"):
            _run(
                "ip",
                "netns",
                "exec",
                self.bridge,
                "sh",
                "-c",
                f"[ ! -e {switch}{family} ] || echo 0 > {switch}{family}",
            )

    def _add_namespace(self, name: str) -> None:
        ip("netns", "add", name)
        self._namespaces.append(name)
        ip("-n", name, "link", "set", "lo", "up")

    def _add_host(self, number: int) -> None:
        links = self._options.links
        host = Host(f"{self._id}-{number}", f"port{number}", f"{SUBNET}.{number + 1}", links)
        self._add_namespace(host.namespace)
        for link in range(links):
            self._add_link(host, link, number)
        self.hosts.append(host)

    def _add_link(self, host: Host, link: int, number: int) -> None:
        options = self._options
        device, subnet = host.interfaces[link], SUBNETS[link]
        port = host.port if link == 0 else f"{host.port}-{link}"
        address = f"{subnet}.{number + 1}"
        peer = ("peer", "name", device, "netns", host.namespace)
        ip("-n", self.bridge, "link", "add", port, "type", "veth", *peer)
        for namespace, end in ((self.bridge, port), (host.namespace, device)):
            ip("-n", namespace, "link", "set", end, "mtu", str(options.mtu), "up")
            self._limit(namespace, end)
        ip("-n", self.bridge, "link", "set", port, "master", f"br{link}")
        ip("-n", host.namespace, "address", "add", f"{address}/24", "dev", device)
        # By route: a namespace may not choose among all that the machine has, its routes may.
        route = ("route", "replace", f"{subnet}.0/24", "dev", device, "src", address)
        ip("-n", host.namespace, *route, "congctl", options.congestion)

    def _limit(
        self, namespace: str, device: str, mbit: float | None = None, verb: str = "add"
    ) -> None:
        options = self._options
        rate = options.mbit if mbit is None else mbit
        _run(
            "tc",
            "-n",
            namespace,
            "qdisc",
            verb,
            "dev",
            device,
            "root",
            "tbf",
            "rate",
            f"{rate * 1000:.0f}kbit",
            "burst",
            f"{options.burst_kb}kb",
            "latency",
            f"{options.queue_ms}ms",
        )

    def set_rate(self, host: Host, mbit: float) -> None:
        """Give the link of a host another rate, in both directions, while programs use it."""
        for namespace, device in ((self.bridge, host.port), (host.namespace, "eth0")):
            self._limit(namespace, device, mbit, "change")

    def _remove(self) -> None:
        # Links go with their namespaces.
        for name in self._namespaces:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
        self._namespaces.clear()


def received(hosts: Sequence[Host]) -> list[int]:
    """Return what each host has received so far."""
    return [host.received_bytes() for host in hosts]


def remove_leftovers() -> None:
    """Remove the namespaces of labs whose process was killed before it could do so."""
    for line in ip("netns", "list").splitlines():
        name = line.split()[0]
        process = name.removeprefix(PREFIX).partition("-")[0]
        if name.startswith(PREFIX) and process.isdigit() and not Path(f"/proc/{process}").exists():
            ip("netns", "delete", name)
