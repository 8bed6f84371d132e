"""The options of `bps run`, and the job that they describe."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from byteps.cli.arguments import Number, Parser
from byteps.cli.children import ProcessSpec
from byteps.cli.cores import say_cores
from byteps.cli.local_job import local_job, say_threads
from byteps.cli.lost_processes import RESTARTS_DEFAULT, LossPolicy
from byteps.cli.output_files import OutputFiles
from byteps.cli.ports import read_ports
from byteps.cli.supervisor import Supervisor
from byteps.common.errors import InvalidArgumentError
from byteps.common.job.cluster import servers_needed, weakness_of

# What only a job on several hosts needs is imported where such a job begins.
if TYPE_CHECKING:
    import argparse

    from byteps.cli.hosts import Host

# An agent ends its processes itself within the grace time; this is for its way back.
_AGENT_GRACE_S = 3.0


LINES, RAW = "lines", "raw"  # how the output of the processes is shown


def add_to(parser: Parser) -> None:
    """Let a command take the options that say which processes a job has, and where."""
    parser.option(
        "-np",
        "-n",
        "--num-proc",
        kind=Number(int, 1),
        shown="N",
        text="Number of workers. With hosts: as many as they have room for.",
    )
    parser.option(
        "-H",
        "--hosts",
        shown="A:N,B:N",
        text="Start N workers on each of these hosts, over ssh.",
    )
    parser.option(
        "-hostfile",
        "--hostfile",
        shown="FILE",
        text="The same from a file with lines NAME slots=N.",
    )
    parser.option(
        "--servers",
        kind=Number(int, 1),
        shown="K",
        text="Number of summation servers. Without this option, 2 to 64 workers of one machine "
        "share memory and need no server; a job on several hosts has one on each.",
    )
    parser.option(
        "--server-hosts",
        shown="C,D",
        text="Start the servers on these hosts, and not beside the workers.",
    )
    parser.option("-p", "--ssh-port", kind=Number(int, 1, 65535), shown="PORT", text="Port of ssh.")
    parser.option(
        "-i", "--ssh-identity-file", dest="ssh_key", shown="FILE", text="Private key for ssh."
    )
    parser.option(
        "--ssh",
        default="ssh",
        shown="COMMAND",
        text="ssh with options of your own, such as 'ssh -F FILE'.",
    )
    parser.option(
        "--ports",
        shown="FIRST-LAST",
        text="Ports of scheduler, servers and torch.distributed on all hosts, for a firewall. "
        "Without this option DMLC_PS_ROOT_PORT and DMLC_PORT count, if they are set.",
    )


@dataclass(frozen=True)
class RunOptions:
    """What the user has said about a job."""

    num_proc: int | None = None
    hosts: str | None = None
    hostfile: str | None = None
    servers: int | None = None
    server_hosts: str | None = None
    ssh: Sequence[str] = ("ssh",)
    ports: str | None = None
    grace: float = 3.0
    restart: int = RESTARTS_DEFAULT
    output: str = LINES
    output_dir: str | None = None
    min_np: int = 0

    @property
    def _is_prefixed(self) -> bool:
        return self.output == LINES

    def supervisor(self, command: Sequence[str]) -> Supervisor:
        """Return what runs the job."""
        if not self._is_prefixed and self.output_dir is not None:
            raise InvalidArgumentError(
                "--output raw and --output-dir exclude each other: raw output does not pass bps."
            )
        hosts = self._hosts()
        ports = read_ports(self.ports) if self.ports is not None else None
        if not self.server_hosts and (not hosts or _is_here_alone(hosts)):
            if ports is not None:
                raise InvalidArgumentError(
                    "--ports is for a job on several hosts (--hosts): the processes of one machine "
                    "meet on its loopback address, where no firewall stands."
                )
            return self._on_this_machine(hosts[0].slots if hosts else self.num_proc, command)
        return self._on_hosts(hosts, ports, command)

    def described(self, command: Sequence[str]) -> list[ProcessSpec]:
        """Return the processes that the job would have."""
        from byteps.cli import agent

        specs = self.supervisor(command).specs
        parts = [agent.specs(json.loads(spec.task), os.environ) for spec in specs if spec.task]
        return [spec for part in parts for spec in part] or list(specs)

    def machines(self) -> list[tuple[int, int]]:
        """Return how many workers and servers each host of the job would have."""
        specs = self.supervisor([sys.executable]).specs
        tasks = [json.loads(spec.task) for spec in specs if spec.task]
        placed = [(task["host"], one["role"]) for task in tasks for one in task["processes"]]
        placed = placed or [("", spec.role) for spec in specs]
        hosts = dict.fromkeys(host for host, _ in placed)
        return [(placed.count((host, "worker")), placed.count((host, "server"))) for host in hosts]

    def _hosts(self) -> list[Host]:
        is_named = self.hosts is not None or self.hostfile is not None
        if not is_named and self.num_proc is None:
            raise InvalidArgumentError("say how many workers the job has: -np N, or --hosts.")
        if not is_named and not self.server_hosts:
            return []
        from byteps.cli.hosts import fill, read_hostfile, read_hosts

        if self.hosts is not None and self.hostfile is not None:
            raise InvalidArgumentError("--hosts and --hostfile exclude each other.")
        if self.hosts is not None:
            return fill(read_hosts(self.hosts), self.num_proc)
        if self.hostfile is not None:
            return fill(read_hostfile(self.hostfile), self.num_proc)
        return read_hosts(f"localhost:{self.num_proc}")

    def _check_min_np(self, workers: int) -> None:
        if self.min_np > workers:
            raise InvalidArgumentError(
                f"--min-np is {self.min_np}, but there are only {workers} workers (-np)."
            )

    def _on_this_machine(self, workers: int | None, command: Sequence[str]) -> Supervisor:
        assert workers is not None
        self._check_min_np(workers)
        servers = self.servers
        if servers is None:
            servers = servers_needed(workers, os.environ, self.min_np)
        supervisor = Supervisor(
            local_job(workers, servers, command, os.environ, self.min_np),
            self.grace,
            self._is_prefixed,
            policy=LossPolicy(self.restart, self.min_np),
            files=OutputFiles(self.output_dir) if self.output_dir is not None else None,
        )
        say_threads(supervisor, os.environ)
        say_cores(supervisor)
        return supervisor

    def _on_hosts(
        self, hosts: Sequence[Host], ports: range | None, command: Sequence[str]
    ) -> Supervisor:
        from byteps.cli.hosts import read_hosts
        from byteps.cli.job_input import InputForwarder
        from byteps.cli.remote_job import RemoteOptions, remote_job

        self._check_min_np(sum(host.slots for host in hosts))
        options = RemoteOptions(
            servers=self.servers,
            server_hosts=[host.name for host in read_hosts(self.server_hosts or "")]
            if self.server_hosts
            else [],
            grace_s=self.grace,
            restarts=self.restart,
            prefixed=self._is_prefixed,
            output_dir=self.output_dir,
            ssh=self.ssh,
            ports=ports,
            min_np=self.min_np,
        )
        specs = remote_job(hosts, command, options)
        policy = LossPolicy(min_workers=self.min_np)
        grace_s = self.grace + _AGENT_GRACE_S
        supervisor = Supervisor(specs, grace_s, self._is_prefixed, policy=policy)
        InputForwarder(supervisor, specs)
        weakness = weakness_of(os.environ.get("BYTEPS_JOB_SECRET", ""))
        if weakness:
            supervisor.on_started(lambda: supervisor.say(f"{weakness}; without it bps makes one"))
        return supervisor


def of(said: argparse.Namespace) -> RunOptions:
    """Return the job that a command line describes."""
    told = {**vars(said), "ssh": ssh_command(said.ssh, said.ssh_port, said.ssh_key)}
    names = [field.name for field in fields(RunOptions)]
    return RunOptions(**{name: told[name] for name in names if name in told})


def _is_here_alone(hosts: Sequence[Host]) -> bool:
    return len(hosts) == 1 and hosts[0].is_this_machine


def ssh_command(command: str, port: int | None, key: str | None) -> list[str]:
    """Return the words of ssh with its options."""
    words = shlex.split(command)
    if not words:
        raise InvalidArgumentError("--ssh is empty; it is a command such as 'ssh -F FILE'.")
    words += ["-p", str(port)] if port is not None else []
    return [*words, "-i", key] if key is not None else words
