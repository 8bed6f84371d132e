"""The ports of a job: free ones, or on several hosts those that a firewall lets through."""

from __future__ import annotations

import re
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from byteps.common.errors import InvalidArgumentError, UnavailableError

_RANGE = re.compile(r"(\d{1,5})-(\d{1,5})")
_PORT_MAX = 65535
_PORT_MIN = 1024  # of a user who is not root
_OF_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_OF_KUBERNETES = 30000  # from here on it gives ports to services
_CHOICE, _CHOICE_MIN = 10000, 1000
_TRIES = 100


def read_ports(text: str) -> range:
    """Return the ports that --ports names."""
    found = _RANGE.fullmatch(text.strip())
    first, last = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 0 < first <= last <= _PORT_MAX:
        raise InvalidArgumentError(
            f"--ports is '{text}'; it is FIRST-LAST, such as 20000-20010, from 1 to {_PORT_MAX}."
        )
    return range(first, last + 1)


def _of_variable(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "").strip()
    if text in ("", "0"):
        return None
    if not text.isdecimal() or not 0 < int(text) <= _PORT_MAX:
        raise InvalidArgumentError(f"{name} is '{text}'; a port is a number from 1 to {_PORT_MAX}.")
    return int(text)


@dataclass(frozen=True)
class JobPorts:
    """Where the processes of a job listen. None: the launcher, or the system, chooses."""

    scheduler: int | None = None
    torch: int | None = None  # the store of torch.distributed, which rank 0 opens
    # A server takes the first of these that is free on its host.
    of_servers: Sequence[int] | None = None


def job_ports(
    ports: range | None,
    environment: Mapping[str, str],
    servers_of_a_host: int,
    first_host_is_here: bool,
) -> JobPorts:
    """Return the ports of a job: those of --ports, or what the variables of the environment say.

    `servers_of_a_host`: the largest number of servers on one host. If the first host is this
    machine, its scheduler and rank 0 get ports that are free.
    """
    if ports is None:
        first = _of_variable(environment, "DMLC_PORT")
        of_servers = None if first is None else range(first, first + servers_of_a_host)
        return JobPorts(_of_variable(environment, "DMLC_PS_ROOT_PORT"), None, of_servers)
    needed = 2 + servers_of_a_host
    if len(ports) < needed:
        raise InvalidArgumentError(
            f"--ports {ports[0]}-{ports[-1]} has {len(ports)} ports, and the job needs {needed} "
            "on a host: for the scheduler, for torch.distributed and for each server."
        )
    able = free_of(ports) if first_host_is_here else list(ports)
    if len(able) < 2:
        raise _taken(ports, len(able), 2)
    scheduler, torch = able[:2]
    return JobPorts(scheduler, torch, [port for port in ports if port not in (scheduler, torch)])


def take_for_servers(ports: Sequence[int], count: int, first: int) -> list[int]:
    """Return so many of the ports that nobody uses on this host.

    `first`: the number of the first server here. Servers of other hosts look elsewhere first, as
    two hosts of a job may be the same machine.
    """
    able = free_of([*ports[first % len(ports) :], *ports[: first % len(ports)]])
    if len(able) < count:
        raise _taken(ports, len(able), count)
    return able[:count]


def _taken(ports: Sequence[int], left: int, count: int) -> UnavailableError:
    return UnavailableError(
        f"of the ports {ports[0]}-{ports[-1]} (--ports, or DMLC_PORT) {left} are free on this "
        f"host, and the job needs {count}: other programs use the rest. Choose other ports; "
        "'ss -ltnp' shows who listens."
    )


def free_port() -> int:
    """Return a port on which nobody listens here, for a process that is about to start.

    The system may give a port of its own range to an outgoing connection of any program, before
    that process listens. So this port lies below that range, if there is room.
    """
    try:
        choice = quiet_ports(_OF_CONNECTIONS.read_text())
    except (OSError, ValueError):
        choice = range(0)
    for _ in range(_TRIES if choice else 0):
        port = secrets.choice(choice)
        if is_free(port):
            return port
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def quiet_ports(of_connections: str) -> range:
    """Return ports that the system gives to nobody by itself; empty: it leaves too few.

    `of_connections`: the first and the last port that it gives to outgoing connections.
    """
    end = min(int(of_connections.split()[0]), _OF_KUBERNETES)
    ports = range(max(_PORT_MIN, end - _CHOICE), end)
    return ports if len(ports) >= _CHOICE_MIN else range(0)


def free_of(ports: Sequence[int]) -> list[int]:
    """Return the ports on which nobody listens on this host."""
    return [port for port in ports if is_free(port)]


def is_free(port: int) -> bool:
    """Return whether nobody listens on a port of this host."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Connections of an earlier job that have ended do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True
