"""A job on several hosts: what each host runs, and the agents that run it there."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from byteps.__version__ import __version__
from byteps.cli import torch_variables
from byteps.cli.children import ProcessSpec
from byteps.cli.confirmations import Confirmations
from byteps.cli.hosts import Host, real_name
from byteps.cli.last_error import SaidOnce
from byteps.cli.local_job import NOT_INHERITED, waiting_style
from byteps.cli.ports import JobPorts, free_port, job_ports
from byteps.common.errors import UnavailableError
from byteps.common.job.cluster import MIN_WORKERS_VARIABLE, port_of, servers_needed
from byteps.common.job.launch_environment import LOOPBACK, source_towards
from byteps.common.job.launch_notes import MARKER_VARIABLE
from byteps.common.job.layout import LOCAL_SIZE_VARIABLE, Layout

_SSH_OPTIONS = {
    "BatchMode": "yes",  # no question that nobody would answer
    "ConnectTimeout": "15",
    "ServerAliveInterval": "10",
    "ServerAliveCountMax": "3",
}
# What belongs to the launcher's machine, shell or user, or is of another session.
_STAYS = (
    "HOME",
    "HOSTNAME",
    "LOGNAME",
    "MAIL",
    "OLDPWD",
    "PWD",
    "SHELL",
    "SHLVL",
    "TERM",
    "TMPDIR",
    "USER",
    "_",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    MARKER_VARIABLE,
)
# Which network the servers use; on one machine they use none.
_NETWORK = ("BYTEPS_ADDRESS_CIDR", "BYTEPS_INTERFACES", "DMLC_INTERFACE")
_STAYS_PREFIXES = ("BASH_FUNC_", "SSH_", "XDG_", "DBUS_")


@dataclass(frozen=True)
class RemoteOptions:
    """What the user says beside hosts and command."""

    servers: int | None = None
    server_hosts: Sequence[str] = ()
    grace_s: float = 3.0
    restarts: int = 0
    prefixed: bool = True
    output_dir: str | None = None
    ssh: Sequence[str] = ("ssh",)
    ports: range | None = None
    min_np: int = 0


def carried_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that go to all hosts."""
    stays = {*_STAYS, *NOT_INHERITED} - set(_NETWORK)
    return {
        name: value
        for name, value in environment.items()
        if name not in stays and not name.startswith(_STAYS_PREFIXES)
    }


@dataclass(frozen=True)
class Part:
    """What one agent runs: the workers of a host, or its services. It ends when they have ended."""

    host: str
    role: str  # worker; or scheduler, server: the services of a host
    processes: list[dict[str, Any]]

    @property
    def label(self) -> str:
        """Return how the user is told of it."""
        return f"host {self.host}" if self.role == "worker" else f"the servers of host {self.host}"

    def count(self, role: str) -> int:
        """Return how many processes of a role it has."""
        return sum(one["role"] == role for one in self.processes)


def _process(
    host: str, role: str, name: str, rank: int | None = None, **variables: str
) -> dict[str, Any]:
    return {"role": role, "label": f"{host} {name}", "rank": rank, "environment": variables}


def _services(hosts: Sequence[Host], server_hosts: Sequence[str], count: int) -> list[Part]:
    parts: dict[str, Part] = {}
    if count:
        first = hosts[0].name
        parts[first] = Part(first, "scheduler", [_process(first, "scheduler", "scheduler")])
    for number in range(count):
        host = server_hosts[number % len(server_hosts)]
        part = parts.setdefault(host, Part(host, "server", []))
        name = f"server {number}"
        part.processes.append(_process(host, "server", name, DMLC_RANK=str(number)))
    return list(parts.values())


def placed(hosts: Sequence[Host], options: RemoteOptions) -> list[Part]:
    """Return what runs where: the first host has the scheduler if there are servers."""
    server_hosts = list(options.server_hosts) or [host.name for host in hosts]
    count = options.servers
    if count is None:
        alone = len(hosts) == 1 and not options.server_hosts
        count = servers_needed(hosts[0].slots, os.environ) if alone else len(server_hosts)
    parts = _services(hosts, server_hosts, count)
    layout = layout_of(hosts)
    for machine, host in enumerate(hosts):
        workers = []
        for local_rank in range(host.slots):
            rank = layout.first_rank(machine) + local_rank
            numbers = {
                "DMLC_WORKER_ID": str(machine),
                "BYTEPS_LOCAL_RANK": str(local_rank),
                LOCAL_SIZE_VARIABLE: str(host.slots),
                **torch_variables.of_worker(layout, machine, local_rank),
            }
            workers.append(_process(host.name, "worker", f"worker {rank}", rank, **numbers))
        parts.append(Part(host.name, "worker", workers))
    return parts


def layout_of(hosts: Sequence[Host]) -> Layout:
    """Return how many workers each host has."""
    return Layout(tuple(host.slots for host in hosts))


def job_variables(
    hosts: Sequence[Host], servers: int, root: str, ports: JobPorts
) -> dict[str, str]:
    """Return the variables that describe the job, the same on all hosts."""
    chosen = free_port() if hosts[0].is_this_machine else port_of(secrets.randbits(32))
    port = ports.scheduler or chosen
    job_id = torch_variables.new_job_id(avoid=port)
    meeting = torch_variables.meeting(os.environ, root, job_id)
    if ports.torch is not None:
        meeting["MASTER_PORT"] = str(ports.torch)
    return {
        **layout_of(hosts).variables(),
        "DMLC_NUM_SERVER": str(servers),
        "DMLC_PS_ROOT_URI": root,
        "DMLC_PS_ROOT_PORT": str(port),
        "BYTEPS_FORCE_DISTRIBUTED": "1" if servers else "0",
        "BYTEPS_JOB_ID": job_id,
        "BYTEPS_JOB_SECRET": os.environ.get("BYTEPS_JOB_SECRET") or secrets.token_hex(16),
        **meeting,
        "PYTHONUNBUFFERED": "1",
    }


def root_address(hosts: Sequence[Host], others: Sequence[str], ssh: Sequence[str]) -> str:
    """Return the address of the first host as the others reach it."""
    first = hosts[0]
    if not first.is_this_machine:
        return real_name(first.name, ssh)
    if not others:
        return LOOPBACK
    other = real_name(others[0], ssh)
    try:
        return source_towards(other)
    except OSError as error:
        raise UnavailableError(f"host {other} cannot be found: {error}.") from error


def agent_command(host: str, is_this_machine: bool, ssh: Sequence[str]) -> list[str]:
    """Return what starts an agent on a host; nothing secret is in it."""
    agent = [sys.executable, "-m", "byteps.cli.agent"]
    if is_this_machine:
        return agent
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if paths:
        here = os.pathsep.join(str(Path(path).absolute()) for path in paths)
        agent = ["env", f"PYTHONPATH={here}", *agent]
    options = [word for name, value in _SSH_OPTIONS.items() for word in ("-o", f"{name}={value}")]
    # Options that the user gives come first: of two, ssh takes the first.
    return [*ssh, *options, "-T", "--", host, shlex.join(agent)]


def remote_job(
    hosts: Sequence[Host], command: Sequence[str], options: RemoteOptions
) -> list[ProcessSpec]:
    """Return the agents of all hosts."""
    parts = placed(hosts, options)
    names = dict.fromkeys(part.host for part in parts)
    local = {name for name in names if Host(name, 1).is_this_machine}
    others = [name for name in names if name not in local]
    servers = sum(part.count("server") for part in parts)
    root = root_address(hosts, others, options.ssh) if servers else LOOPBACK
    on_a_host = max((part.count("server") for part in parts), default=0)
    ports = job_ports(options.ports, os.environ, on_a_host, hosts[0].is_this_machine)
    variables = job_variables(hosts, servers, root, ports)
    variables[MIN_WORKERS_VARIABLE] = str(options.min_np)
    carried = {**carried_environment(os.environ), **variables}
    said = {name: SaidOnce() for name in names}
    specs = []
    for part in parts:
        confirmations = Confirmations() if any(one["rank"] == 0 for one in part.processes) else None
        for one in part.processes:
            speaks = one["role"] == "scheduler" or servers == 0
            one["environment"] |= waiting_style(speaks, os.environ)
        task = {
            "version": __version__,
            "host": part.host,
            "folder": str(Path.cwd()),
            "environment": carried,
            "command": list(command),
            "processes": part.processes,
            "server_ports": None if ports.of_servers is None else list(ports.of_servers),
            "grace": options.grace_s,
            "restart": options.restarts,
            "min_np": options.min_np,
            "prefixed": options.prefixed,
            "output_dir": options.output_dir,
            "terminal": os.isatty(1) and os.isatty(2),
            "input": confirmations.token if confirmations is not None else None,
        }
        start = agent_command(part.host, part.host in local, options.ssh)
        rank = 0 if confirmations is not None else None
        ranks = [one["rank"] for one in part.processes if one["rank"] is not None]
        specs.append(
            ProcessSpec(
                part.label,
                start,
                os.environ,
                part.role,
                rank,
                task=json.dumps(task),
                ranks=ranks,
                part_servers=part.count("server"),
                said=said[part.host],
                confirmations=confirmations,
            )
        )
    return specs
