"""Which cores each worker of this machine runs on: BYTEPS_NUMA_ON and what belongs to it.

A machine with several NUMA nodes has memory that is near to some of its cores and far from the
others. There each worker gets cores of one node, or whole nodes, so that its threads and its memory
stay together. Nothing here is ever an error of the machine: where it does not tell its nodes, or
does not let processes be bound, they run where the system puts them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from byteps.cli.children import ProcessSpec
from byteps.cli.supervisor import Supervisor
from byteps.common import environment as settings
from byteps.common.errors import InvalidArgumentError
from byteps.common.job.launchers import number_of

SWITCH_VARIABLE = "BYTEPS_NUMA_ON"
LISTS_VARIABLE = "BYTEPS_VISIBLE_CPU_CORES"
_QUOTA_VARIABLE = "BYTEPS_NUMA_DEFAULT_QUOTA"
_CARRIER_QUOTA_VARIABLE = "BYTEPS_NUMA_ROOT_QUOTA"
_AVOIDED_VARIABLE = "BYTEPS_CPU_BLACKLIST"
_SIBLINGS_VARIABLE = "BYTEPS_MULTITHREADED_CPU"
_INTERFACES_VARIABLE = "BYTEPS_INTERFACES"
CORES_MAX = 65536
ROOT = Path("/")


@dataclass(frozen=True)
class Node:
    """A NUMA node: its cores, each as the processors that share it."""

    number: int
    cores: tuple[tuple[int, ...], ...]


def switch_or(name: str, default: bool, environment: Mapping[str, str]) -> bool:
    """Return whether a variable is on; `default` if it is not set."""
    is_set = bool(environment.get(name, "").strip())
    return settings.switch(name, environment) if is_set else default


def parse_cores(text: str) -> list[int]:
    """Return the numbers of "0-3,8"; raise ValueError for another text."""
    found: set[int] = set()
    for part in text.replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        begin, end = number_of(first), number_of(last if dash else first)
        if begin is None or end is None or not begin <= end < CORES_MAX:
            raise ValueError(part)
        found.update(range(begin, end + 1))
    return sorted(found)


def format_cores(cores: Sequence[int]) -> str:
    """Return "0-3,8" for the numbers."""
    parts: list[list[int]] = []
    for core in sorted(cores):
        if parts and core == parts[-1][-1] + 1:
            parts[-1].append(core)
        else:
            parts.append([core])
    return ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


def nodes(allowed: Sequence[int], root: Path = ROOT) -> list[Node]:
    """Return the nodes that have allowed cores, by number; none if the kernel does not tell."""
    usable = set(allowed)
    found = []
    for folder in (root / "sys/devices/system/node").glob("node[0-9]*"):
        number = number_of(folder.name.removeprefix("node"))
        with contextlib.suppress(OSError, ValueError):
            own = [core for core in parse_cores((folder / "cpulist").read_text()) if core in usable]
            if number is not None and own:
                found.append(Node(number, _physical(own, root)))
    return sorted(found, key=lambda node: node.number)


def _physical(cores: Sequence[int], root: Path) -> tuple[tuple[int, ...], ...]:
    """Return the cores with those that share a physical one together."""
    together: dict[int, list[int]] = {}
    for core in cores:
        first = core
        path = root / f"sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"
        with contextlib.suppress(OSError, ValueError):
            first = min(parse_cores(path.read_text()))
        together.setdefault(first, []).append(core)
    return tuple(tuple(group) for group in together.values())


def node_of_interface(interface: str, root: Path = ROOT) -> int | None:
    """Return at which node a network device is; None: unknown."""
    try:
        number = int((root / "sys/class/net" / interface / "device/numa_node").read_text())
    except (OSError, ValueError):
        return None
    return number if number >= 0 else None


def worker_cores(
    workers: int, environment: Mapping[str, str], allowed: Sequence[int], root: Path = ROOT
) -> list[list[int]] | None:
    """Return the cores of each worker of this machine, by local rank; None: none is bound."""
    if not switch_or(SWITCH_VARIABLE, True, environment):
        return None
    if environment.get(LISTS_VARIABLE, "").strip():
        return _listed(environment[LISTS_VARIABLE], workers)
    avoided = set(_avoided(environment))
    found = nodes([core for core in allowed if core not in avoided], root)
    quotas = _quotas(workers, environment)
    asked = bool(avoided) or any(quota is not None for quota in quotas)
    if not found or (not asked and (workers < 2 or len(found) < 2)):
        return None
    found = _nearest_first(found, environment, root)
    shares = _shares(workers, found)
    if not all(shares):
        return None
    siblings = switch_or(_SIBLINGS_VARIABLE, True, environment)
    return [
        sorted(core for group in share[:quota] for core in (group if siblings else group[:1]))
        for share, quota in zip(shares, quotas, strict=True)
    ]


def _nearest_first(found: list[Node], environment: Mapping[str, str], root: Path) -> list[Node]:
    """Begin with the node of the network device: local rank 0 speaks for the machine."""
    interface = environment.get(_INTERFACES_VARIABLE, "").partition(",")[0].strip()
    near = node_of_interface(interface or _way_out(root), root)
    for place, node in enumerate(found):
        if node.number == near:
            return found[place:] + found[:place]
    return found


def _way_out(root: Path) -> str:
    """Return the interface of the default route; "." if there is none."""
    with contextlib.suppress(OSError):
        for line in (root / "proc/net/route").read_text().splitlines()[1:]:
            words = line.split()
            if len(words) > 1 and words[1] == "00000000":
                return words[0]
    return "."


def _shares(workers: int, found: Sequence[Node]) -> list[list[tuple[int, ...]]]:
    """Split the nodes among the workers; each gets a part of one node, or whole nodes."""
    count = len(found)
    if workers < count:
        return [
            [
                group
                for node in found[rank * count // workers : (rank + 1) * count // workers]
                for group in node.cores
            ]
            for rank in range(workers)
        ]
    shares = []
    for place, node in enumerate(found):
        here = (place + 1) * workers // count - place * workers // count
        cores, more = divmod(len(node.cores), here)
        begin = 0
        for rank in range(here):
            end = begin + cores + (rank < more)
            shares.append(list(node.cores[begin:end]))
            begin = end
    return shares


def _listed(text: str, workers: int) -> list[list[int]]:
    try:
        lists = [parse_cores(part) for part in text.split(":")]
    except ValueError as error:
        raise InvalidArgumentError(
            f"{LISTS_VARIABLE} is {text!r}; {str(error)!r} in it is no list of cores. It has a "
            "list for each worker of the machine, as in 0-3,8:4-7,9."
        ) from None
    if len(lists) < workers:
        raise InvalidArgumentError(
            f"{LISTS_VARIABLE} is {text!r}, which has {len(lists)} lists of cores, and this "
            f"machine has {workers} workers. Give each of them a list, with ':' in between."
        )
    return lists[:workers]


def _avoided(environment: Mapping[str, str]) -> list[int]:
    text = environment.get(_AVOIDED_VARIABLE, "").strip()
    if text in ("", "-1"):
        return []
    try:
        return parse_cores(text)
    except ValueError as error:
        raise InvalidArgumentError(
            f"{_AVOIDED_VARIABLE} is {text!r}; {str(error)!r} in it is no core. It is a list such "
            "as 0,4-7, or -1."
        ) from None


def _quotas(workers: int, environment: Mapping[str, str]) -> list[int | None]:
    """Return how many physical cores each worker gets at most. The carrier is local rank 0."""
    each = _quota(_QUOTA_VARIABLE, environment)
    carrier = _quota(_CARRIER_QUOTA_VARIABLE, environment)
    return [carrier or each, *[each] * (workers - 1)]


def _quota(name: str, environment: Mapping[str, str]) -> int | None:
    text = environment.get(name, "").strip() or "0"
    number = number_of(text)
    if number is None:
        raise InvalidArgumentError(f"{name} is {text!r}; it must be a number of cores, or 0.")
    return number or None


def bound(specs: Sequence[ProcessSpec], environment: Mapping[str, str]) -> list[ProcessSpec]:
    """Return the processes of this machine, each worker with its cores."""
    workers = sum(spec.is_worker for spec in specs)
    shares = worker_cores(workers, environment, sorted(os.sched_getaffinity(0)))
    if shares is None:
        return list(specs)
    left = iter(shares)
    return [replace(spec, cores=next(left)) if spec.is_worker else spec for spec in specs]


def say_cores(supervisor: Supervisor) -> None:
    """Let a launcher say which cores `bound` has given."""
    workers = [spec for spec in supervisor.specs if spec.cores]
    if not workers:
        return
    text = "; ".join(f"{spec.label} on {format_cores(spec.cores)}" for spec in workers)
    supervisor.on_started(
        lambda: supervisor.say(f"workers are bound to cores (--numa off to leave them): {text}")
    )
