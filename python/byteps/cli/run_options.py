"""The options of `bps run`, and the job that they describe."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

import typer

from byteps.cli import agent
from byteps.cli.children import ProcessSpec
from byteps.cli.cores import SWITCH_VARIABLE, say_cores
from byteps.cli.hosts import Host, fill, read_hostfile, read_hosts
from byteps.cli.job_input import InputForwarder
from byteps.cli.local_job import local_job, say_threads
from byteps.cli.lost_processes import RESTARTS_DEFAULT, LossPolicy
from byteps.cli.output_files import OutputFiles
from byteps.cli.ports import read_ports
from byteps.cli.remote_job import RemoteOptions, remote_job
from byteps.cli.supervisor import Supervisor
from byteps.common.environment import TORCH_AS_VARIABLE
from byteps.common.errors import InvalidArgumentError
from byteps.common.job.cluster import MIN_WORKERS_VARIABLE, servers_needed, weakness_of

# An agent ends its processes itself within the grace time; this is for its way back.
_AGENT_GRACE_S = 3.0


class OutputForm(str, Enum):
    """How the output of the processes is shown."""

    LINES = "lines"
    RAW = "raw"


class OnOff(str, Enum):
    """A switch."""

    ON = "on"
    OFF = "off"


class StandInFor(str, Enum):
    """A backend of torch that programs name when they get ours."""

    GLOO = "gloo"


def set_torch_as(name: StandInFor | None) -> None:
    """Set the variable that the workers read, if the flag was given."""
    if name is not None:
        os.environ[TORCH_AS_VARIABLE] = name.value


def set_numa(numa: OnOff | None) -> None:
    """Set the variable that the launcher and the library read, if the flag was given."""
    if numa is not None:
        os.environ[SWITCH_VARIABLE] = "1" if numa is OnOff.ON else "0"


Command = Annotated[
    list[str],
    typer.Argument(
        help="The program of a worker and its arguments.", metavar="COMMAND [ARGUMENT]..."
    ),
]
NumProc = Annotated[
    int | None,
    typer.Option(
        "-np",
        "-n",
        "--num-proc",
        min=1,
        metavar="N",
        help="Number of workers. With hosts: as many as they have room for.",
    ),
]
Hosts = Annotated[
    str | None,
    typer.Option(
        "-H", "--hosts", metavar="A:N,B:N", help="Start N workers on each of these hosts, over ssh."
    ),
]
Hostfile = Annotated[
    str | None,
    typer.Option(
        "-hostfile",
        "--hostfile",
        metavar="FILE",
        help="The same from a file with lines NAME slots=N.",
    ),
]
Servers = Annotated[
    int | None,
    typer.Option(
        "--servers",
        min=1,
        metavar="K",
        help="Number of summation servers. Without this option, 2 to 64 workers of one machine "
        "share memory and need no server; a job on several hosts has one on each.",
    ),
]
ServerHosts = Annotated[
    str | None,
    typer.Option(
        "--server-hosts",
        metavar="C,D",
        help="Start the servers on these hosts, and not beside the workers.",
    ),
]
SshPort = Annotated[
    int | None,
    typer.Option("-p", "--ssh-port", min=1, max=65535, metavar="PORT", help="Port of ssh."),
]
SshKey = Annotated[
    str | None,
    typer.Option("-i", "--ssh-identity-file", metavar="FILE", help="Private key for ssh."),
]
Ssh = Annotated[
    str,
    typer.Option(
        "--ssh", metavar="COMMAND", help="ssh with options of your own, such as 'ssh -F FILE'."
    ),
]
Ports = Annotated[
    str | None,
    typer.Option(
        "--ports",
        metavar="FIRST-LAST",
        help="Ports of scheduler, servers and torch.distributed on all hosts, for a firewall. "
        "Without this option DMLC_PS_ROOT_PORT and DMLC_PORT count, if they are set.",
    ),
]
Grace = Annotated[
    float,
    typer.Option(
        "--grace",
        min=0,
        metavar="SECONDS",
        help="Seconds that processes get to end before bps kills them.",
    ),
]
Restart = Annotated[
    int,
    typer.Option(
        "--restart",
        min=0,
        metavar="N",
        help="How often bps starts servers and scheduler again after they died, all together.",
    ),
]
OutputStyle = Annotated[
    OutputForm,
    typer.Option(
        "--output",
        help="lines: bps writes whole lines, each with the name of its process. raw: the "
        "processes write to bps' own output themselves.",
    ),
]
OutputDir = Annotated[
    str | None,
    typer.Option(
        "--output-dir",
        "--output-filename",
        metavar="DIR",
        help="Also write the output of each process to a file of its own in this folder, on its "
        "own host.",
    ),
]
MinNp = Annotated[
    int,
    typer.Option(
        "--min-np",
        min=0,
        metavar="N",
        envvar=MIN_WORKERS_VARIABLE,
        help="If workers die, go on while so many live; 0: end the job at the first loss.",
    ),
]
Numa = Annotated[
    OnOff | None,
    typer.Option(
        "--numa",
        help="on, as without this option: on a machine with several NUMA nodes each worker runs "
        "on cores of one node, and lanes and shards run near their network interface. off: bind "
        "nothing.",
    ),
]
TorchAs = Annotated[
    StandInFor | None,
    typer.Option(
        "--as",
        envvar=TORCH_AS_VARIABLE,
        case_sensitive=False,
        help="gloo: a program that asks torch.distributed for this backend gets byteps, so a "
        "script of torch needs no change.",
    ),
]
PrintConfig = Annotated[
    bool,
    typer.Option(
        "--print-config", help="Print the options of each role in this job, and start nothing."
    ),
]


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
    output: OutputForm = OutputForm.LINES
    output_dir: str | None = None
    min_np: int = 0

    @property
    def _is_prefixed(self) -> bool:
        return self.output == OutputForm.LINES

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
        if self.hosts is not None and self.hostfile is not None:
            raise InvalidArgumentError("--hosts and --hostfile exclude each other.")
        if self.hosts is not None:
            return fill(read_hosts(self.hosts), self.num_proc)
        if self.hostfile is not None:
            return fill(read_hostfile(self.hostfile), self.num_proc)
        if self.num_proc is None:
            raise InvalidArgumentError("say how many workers the job has: -np N, or --hosts.")
        return [Host("localhost", self.num_proc)] if self.server_hosts else []

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


def _is_here_alone(hosts: Sequence[Host]) -> bool:
    return len(hosts) == 1 and hosts[0].is_this_machine


def ssh_command(command: str, port: int | None, key: str | None) -> list[str]:
    """Return the words of ssh with its options."""
    words = shlex.split(command)
    if not words:
        raise InvalidArgumentError("--ssh is empty; it is a command such as 'ssh -F FILE'.")
    words += ["-p", str(port)] if port is not None else []
    return [*words, "-i", key] if key is not None else words
