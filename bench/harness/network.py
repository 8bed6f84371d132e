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

SUBNET = "10.77.0"
PREFIX = "bpslab"


@dataclass(frozen=True)
class LinkOptions:
    """What every host's link is like."""

    mbit: int
    mtu: int = 1500
    burst_kb: int = 256
    queue_ms: int = 20
    congestion: str = "cubic"


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
    """One namespace with one link."""

    namespace: str
    port: str
    address: str

    @property
    def place(self) -> Place:
        """Return where programs of this host run."""
        return Place(("ip", "netns", "exec", self.namespace))

    def received_bytes(self) -> int:
        """Return what has come in over the link so far, headers included."""
        link = json.loads(ip("-n", self.namespace, "-s", "-j", "link", "show", "eth0"))[0]
        return int(link["stats64"]["rx"]["bytes"])


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
        ip("-n", self.bridge, "link", "add", "br0", "type", "bridge")
        ip("-n", self.bridge, "link", "set", "br0", "mtu", str(self._options.mtu), "up")
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
        options = self._options
        host = Host(f"{self._id}-{number}", f"port{number}", f"{SUBNET}.{number + 1}")
        self._add_namespace(host.namespace)
        ip(
            "-n",
            self.bridge,
            "link",
            "add",
            host.port,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            host.namespace,
        )
        for namespace, device in ((self.bridge, host.port), (host.namespace, "eth0")):
            ip("-n", namespace, "link", "set", device, "mtu", str(options.mtu), "up")
            self._limit(namespace, device)
        ip("-n", self.bridge, "link", "set", host.port, "master", "br0")
        ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", "eth0")
        # By route: a namespace may not choose among all that the machine has, its routes may.
        ip(
            "-n",
            host.namespace,
            "route",
            "replace",
            f"{SUBNET}.0/24",
            "dev",
            "eth0",
            "src",
            host.address,
            "congctl",
            options.congestion,
        )
        self.hosts.append(host)

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
