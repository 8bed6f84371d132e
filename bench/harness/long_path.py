"""Hosts far from each other: network namespaces around a router that delays and loses packets."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from types import TracebackType

from harness.jobs import Job
from harness.network import PREFIX, Host, ip
from harness.programs import BENCH_LONG_PATH, BENCH_SOCKET, Fleet, Place, Program

SUBNET = "10.78.0"
# Of Ethernet with packets of 1500 bytes: what of a link's rate is left for TCP's payload.
PAYLOAD_PART = 1448 / 1518
# The device's own queue, which must never be what loses a packet.
DEVICE_PACKETS = 4000


@dataclass(frozen=True)
class PathOptions:
    """What the path between any two hosts is like."""

    mbit: int = 500
    rtt_ms: float = 50
    loss_permille: float = 1
    queue_ms: float = 50

    @property
    def payload_rate(self) -> float:
        """Return what the link can carry of TCP's payload, in bytes per second."""
        return self.mbit * 125_000 * PAYLOAD_PART


class LongPath:
    """The router and its hosts; everything is gone when the context ends."""

    def __init__(self, hosts: int, options: PathOptions) -> None:
        self._options = options
        self._fleet = Fleet()
        self._router: Program | None = None
        names = [f"{PREFIX}{os.getpid()}-far{i}" for i in range(hosts)]
        self.hosts = [Host(name, "eth0", f"{SUBNET}.{i + 1}") for i, name in enumerate(names)]

    def __enter__(self) -> LongPath:
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
        options = self._options
        for host in self.hosts:
            ip("netns", "add", host.namespace)
            ip("-n", host.namespace, "link", "set", "lo", "up")
        numbers = (options.mbit, options.rtt_ms, options.loss_permille, options.queue_ms)
        words = [str(number) for number in numbers] + [host.namespace for host in self.hosts]
        self._router = self._fleet.start("router", Place(), [BENCH_LONG_PATH, *words])
        self._router.answer()
        for host in self.hosts:
            ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", "eth0")
            ip("-n", host.namespace, "link", "set", "eth0", "txqueuelen", str(DEVICE_PACKETS), "up")

    def set_congestion(self, name: str) -> None:
        """Choose the congestion control of connections that are made from now on."""
        for host in self.hosts:
            route = (f"{SUBNET}.0/24", "dev", "eth0", "src", host.address, "congctl", name)
            ip("-n", host.namespace, "route", "replace", *route)

    def set_rtt(self, milliseconds: float) -> None:
        """Make the path longer or shorter while programs use it."""
        assert self._router is not None
        self._router.tell(f"rtt {milliseconds}")
        self._router.answer()

    def _remove(self) -> None:
        self._fleet.end()
        for host in self.hosts:
            subprocess.run(
                ["ip", "netns", "delete", host.namespace], capture_output=True, check=False
            )


def start_plain(fleet: Fleet, path: LongPath, sockets: int) -> Job:
    """Start a client of a plain socket server on the other host, with so many connections."""
    client, server = path.hosts
    helper = fleet.start("socket server", server.place, [BENCH_SOCKET, "serve", "0"])
    address = f"{server.address}:{helper.answer()['port']}"
    program = fleet.start("client", client.place, [BENCH_SOCKET, *[address] * sockets])
    return Job("sockets", [program], [helper])
