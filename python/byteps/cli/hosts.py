"""Which host runs how many workers: `a:2,b:2`, or a file with a line for each host."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from byteps.common.errors import InvalidArgumentError, UnavailableError
from byteps.common.job.layout import LOCAL_SIZE_MAX

_CONFIG_LIMIT_S = 10.0
_NAME = re.compile(r"[A-Za-z0-9_.@%-]+|\[[0-9A-Fa-f:.%]+\]")


@dataclass(frozen=True)
class Host:
    """A host and the number of its workers."""

    name: str
    slots: int

    @property
    def is_this_machine(self) -> bool:
        """Return whether the name stands for the machine of the launcher, without a doubt."""
        return self.name in ("localhost", "127.0.0.1", "::1", socket.gethostname())


def _host(word: str, slots: str, where: str) -> Host:
    number = int(slots) if slots.isascii() and slots.isdigit() and len(slots) <= 6 else 0
    if _NAME.fullmatch(word) is None or word.startswith("-") or not 1 <= number <= LOCAL_SIZE_MAX:
        raise InvalidArgumentError(
            f"{where}: a host is NAME:N, with the number N of its workers; this is "
            f"'{word}:{slots}'."
        )
    return Host(word.strip("[]"), number)


def read_hosts(text: str) -> list[Host]:
    """Return the hosts of a list such as `a:2,b:2,[fd00::1]:2`; without a number a host has one."""
    hosts = []
    for word in filter(None, (one.strip() for one in text.split(","))):
        name, colon, slots = word.rpartition(":")
        plain = word if not colon or slots.endswith("]") else name
        hosts.append(_host(plain, slots if plain == name and colon else "1", "--hosts"))
    return _checked(hosts, "--hosts")


def read_hostfile(path: str) -> list[Host]:
    """Return the hosts of a file with lines `NAME slots=N`, `NAME:N` or `NAME`."""
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"--hostfile {path} cannot be read: {error}.") from error
    hosts = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"{path}:{number}"
        if len(words) == 1:
            hosts += read_hosts(words[0])
        elif len(words) == 2 and words[1].startswith("slots="):
            hosts.append(_host(words[0], words[1].removeprefix("slots="), where))
        else:
            raise InvalidArgumentError(f"{where}: a line is NAME slots=N; this is '{line}'.")
    return _checked(hosts, f"--hostfile {path}")


def _checked(hosts: list[Host], where: str) -> list[Host]:
    if not hosts:
        raise InvalidArgumentError(f"{where} names no host.")
    names = [host.name for host in hosts]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidArgumentError(f"{where} names {twice} twice.")
    return hosts


def fill(hosts: Sequence[Host], num_workers: int | None) -> list[Host]:
    """Return the hosts that get workers, filled in their order; None: all of them, full."""
    slots = sum(host.slots for host in hosts)
    left = slots if num_workers is None else num_workers
    if left > slots:
        raise InvalidArgumentError(
            f"-np is {left}, but the hosts have room for {slots} workers together."
        )
    filled = []
    for host in hosts:
        if left > 0:
            filled.append(Host(host.name, min(host.slots, left)))
            left -= host.slots
    return filled


def real_name(host: str, ssh: Sequence[str]) -> str:
    """Return the name or address that ssh connects to: its configuration may have aliases."""
    plain = host.rpartition("@")[2]
    try:
        asked = subprocess.run(
            [*ssh, "-G", host],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_CONFIG_LIMIT_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise UnavailableError(
            f"{ssh[0]} is not installed, and --hosts needs it (Debian: openssh-client)."
        ) from error
    except (OSError, subprocess.TimeoutExpired):
        return plain
    lines = asked.stdout.splitlines()
    return next((line[9:] for line in lines if line.startswith("hostname ")), plain)
