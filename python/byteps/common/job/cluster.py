"""Jobs that launchers of other systems have started.

Such a launcher gives each process its rank, and starts no servers. From its variables, which stand
in the table of launchers.py, `described_job` makes the variables of a job of BytePS. Every process
computes the same job by itself; nothing is exchanged for it. Programs in C keep the bare contract.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from dataclasses import dataclass, field

from byteps.common.errors import InvalidArgumentError, RefusedError
from byteps.common.job.launch_environment import LOOPBACK
from byteps.common.job.launchers import (
    LAUNCHERS,
    Environment,
    Launcher,
    Place,
    needed_number,
    number_of,
    refused,
)
from byteps.common.job.layout import LOCAL_SIZE_VARIABLE, LOCAL_SIZES_VARIABLE, Layout, told_sizes

SERVERS_VARIABLE = "BYTEPS_SERVERS"
LOCAL_REDUCE_VARIABLE = "BYTEPS_LOCAL_REDUCE"
MIN_WORKERS_VARIABLE = "BYTEPS_MIN_WORKERS"
# As the library's option has it (src/config/option_rows.cc).
_LOCAL_RANKS_MAX = 64
_HOST_VARIABLES = ("DMLC_PS_ROOT_URI", "MASTER_ADDR")
# Below the ports that Linux gives to outgoing connections.
_PORT_FIRST, _PORTS = 20000, 10000
_SECRET_CHARACTERS_WANTED = 16


@dataclass(frozen=True)
class Job:
    """The job of this process, and what this process has to start for it."""

    launcher: str
    variables: dict[str, str]
    has_scheduler: bool = False
    servers: list[int] = field(default_factory=list)  # their numbers
    guessed_host: bool = False  # the launcher's machine was taken for that of rank 0
    ends_leftovers: bool = False  # as the launcher's
    names_come_late: bool = False  # as the launcher's


def servers_needed(num_workers: int, environment: Environment, min_workers: int = 0) -> int:
    """Return how many servers a job on one machine has if the user names no number.

    Workers that share memory need none. They end together, so a job that is to survive losses has
    a server.
    """
    shares = environment.get(LOCAL_REDUCE_VARIABLE, "").strip() != "0"
    fits = 2 <= num_workers <= _LOCAL_RANKS_MAX
    return 0 if shares and fits and min_workers == 0 else 1


def port_of(number: int) -> int:
    """Return a port for a scheduler, out of a range that programs seldom use."""
    return _PORT_FIRST + number % _PORTS


def weakness_of(secret: str) -> str:
    """Return what to say of a secret for several machines that others can guess; empty: nothing."""
    if not 0 < len(secret) < _SECRET_CHARACTERS_WANTED:
        return ""
    return (
        f"BYTEPS_JOB_SECRET has {len(secret)} characters. Whoever pretends to be the scheduler can "
        "guess so short a secret. 'openssl rand -hex 16' makes a good one"
    )


def torch_port(job_id: str) -> int:
    """Return where torch's store of a job listens, if nobody has chosen another port.

    Every process of the job computes it, so each can tell this port from one that was chosen.
    """
    return port_of(int(hashlib.sha256(f"torch {job_id}".encode()).hexdigest()[:8], 16))


def torch_is_told_where(environment: Environment = os.environ, known: Collection[str] = ()) -> bool:
    """Return whether somebody has chosen where the ranks of torch meet, and all is said that torch
    needs for it, here or in what is `known` besides.

    `bps run` sets these variables, too, for other backends than ours: it has chosen nothing.
    """
    needed = {"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"} - set(known)
    if not all(environment.get(name) for name in needed):
        return False
    ours = torch_port(environment.get("BYTEPS_JOB_ID", ""))
    return environment.get("MASTER_PORT") != str(ours)


def told_host(environment: Environment = os.environ) -> str:
    """Return where rank 0 is, as somebody has told all processes; empty: nobody has."""
    return next(filter(None, (environment.get(name) for name in _HOST_VARIABLES)), "")


def names_job(size: int, environment: Environment = os.environ) -> bool:
    """Return whether the environment says which job of `size` workers this process is in.

    Programs that start their ranks themselves often set less, or what they set is about another
    group of processes: of Slurm's tasks each may have started several.
    """
    if environment.get("DMLC_NUM_WORKER", "").strip():
        return True
    launcher = _launcher_of(environment)
    if launcher is None or number_of(environment.get(launcher.size, "")) != size:
        return False
    return all(environment.get(name) for name in launcher.needed)


def described_job(environment: Environment) -> Job | None:
    """Return the job that a launcher of another system describes; None if there is no such job.

    Raises RefusedError, with what is missing, for one of several processes that cannot be a job.
    """
    if environment.get("DMLC_NUM_WORKER", "").strip():
        return None  # somebody has described the job
    if environment.get("DMLC_ROLE", "worker").strip().lower() not in ("", "worker"):
        return None
    launcher = _launcher_of(environment)
    if launcher is None:
        return None
    place = _place(launcher, environment)
    return _Described(launcher, place, environment).job()


def _launcher_of(environment: Environment) -> Launcher | None:
    """Return the launcher that has started several processes; the one that says most of them."""
    found = [
        one
        for one in LAUNCHERS
        if environment.get(one.rank) and (number_of(environment.get(one.size, "")) or 0) >= 2
    ]
    complete = [one for one in found if not one.local_rank or environment.get(one.local_rank)]
    return next(iter([*complete, *found]), None)


def _place(launcher: Launcher, environment: Environment) -> Place:
    size, rank = (
        needed_number(launcher, name, environment) for name in (launcher.size, launcher.rank)
    )
    local_rank = (
        needed_number(launcher, launcher.local_rank, environment) if launcher.local_rank else 0
    )
    local_size = launcher.local_size(environment, size)
    if not 1 <= local_size <= size or local_rank >= local_size or rank >= size:
        raise refused(launcher, size, f"rank {rank} of {size}, local rank {local_rank} of "
                       f"{local_size} cannot be")  # fmt: skip
    layout = Layout(_sizes(launcher, environment, size, local_size))
    return Place(rank, size, local_rank, local_size, layout)


def _sizes(
    launcher: Launcher, environment: Environment, size: int, local_size: int
) -> tuple[int, ...]:
    """Return the workers of all machines: what the user says, or what the launcher says."""
    told = told_sizes(environment)
    if told is not None:
        text = f"{LOCAL_SIZES_VARIABLE}={environment[LOCAL_SIZES_VARIABLE]}"
        if sum(told) != size:
            raise refused(launcher, size, f"{text} has {sum(told)}")
        if local_size not in told:
            raise refused(launcher, size, f"this machine has {local_size} of them, and {text}")
        return told
    sizes = launcher.sizes(environment, size, local_size)
    if sizes is None:
        raise refused(
            launcher,
            size,
            f"this machine has {local_size} of them, so the machines have different numbers of "
            "processes, and no variable says how many each has. Set "
            f"{LOCAL_SIZES_VARIABLE} for all processes, to the numbers of all machines in the "
            "order of their ranks, such as 2,1",
        )
    return sizes


class _Described:
    """Puts the variables of one job together."""

    def __init__(self, launcher: Launcher, place: Place, environment: Environment) -> None:
        self._launcher = launcher
        self._place = place
        self._environment = environment
        self._words = [launcher.name, str(place.size)]
        self._words += [environment.get(name, "") for name in launcher.job]

    def job(self) -> Job:
        place, environment = self._place, self._environment
        one_machine = place.machines == 1
        # On one machine the rank is the number within the machine, however ranks are dealt.
        machine = 0 if one_machine else self._machine()
        servers = self._servers()
        variables = {
            **place.layout.variables(),
            "DMLC_NUM_SERVER": str(servers),
            "DMLC_WORKER_ID": str(machine),
            "BYTEPS_LOCAL_RANK": str(place.rank if one_machine else place.local_rank),
            LOCAL_SIZE_VARIABLE: str(place.local_size),
            **self._global_rank(machine),
            "BYTEPS_JOB_ID": environment.get("BYTEPS_JOB_ID") or self._hash("job"),
            **self._secret(),
        }
        if servers == 0:
            return Job(self._launcher.name, variables)
        late = self._launcher.names_come_late
        variables |= {
            "DMLC_PS_ROOT_URI": LOOPBACK if one_machine else self._first_host(),
            "DMLC_PS_ROOT_PORT": environment.get("DMLC_PS_ROOT_PORT") or self._port(),
            "BYTEPS_FORCE_DISTRIBUTED": "1",
        }
        if place.local_rank != 0:
            return Job(self._launcher.name, variables, names_come_late=late)
        told = bool(told_host(environment))
        return Job(
            self._launcher.name,
            variables,
            has_scheduler=machine == 0,
            servers=list(range(machine, servers, place.machines)),
            guessed_host=self._launcher.guesses_host and not one_machine and not told,
            ends_leftovers=self._launcher.ends_leftovers,
            names_come_late=late,
        )

    def _machine(self) -> int:
        place = self._place
        machine = self._launcher.machine(self._environment, place)
        sizes = place.layout.sizes
        if machine >= len(sizes) or sizes[machine] != place.local_size:
            listed = ",".join(map(str, sizes))
            raise self._refused(
                f"machine {machine} has {place.local_size} of them, and {LOCAL_SIZES_VARIABLE} "
                f"would be {listed}. Set it for all processes, to the numbers of all machines in "
                "the order of their ranks"
            )
        return machine

    def _global_rank(self, machine: int) -> dict[str, str]:
        """Return the rank, if it does not follow from the machine and the number within it."""
        place = self._place
        if place.rank == place.layout.first_rank(machine) + place.local_rank:
            return {}
        return {"BYTEPS_GLOBAL_RANK": str(place.rank)}

    def _servers(self) -> int:
        """Return the number of servers: what the user says, or what the job needs."""
        text = self._environment.get(SERVERS_VARIABLE, "").strip()
        if not text:
            text = self._environment.get("DMLC_NUM_SERVER", "").strip()
        if text:
            number = number_of(text)
            if number is None:
                raise InvalidArgumentError(f"{SERVERS_VARIABLE} is {text!r}; it must be a number.")
            if number > 0 or self._place.machines == 1:
                return number
            raise self._refused(
                f"{SERVERS_VARIABLE} is 0, and processes on {self._place.machines} machines need "
                "servers"
            )
        if self._place.machines > 1:
            return self._place.machines
        minimum = number_of(self._environment.get(MIN_WORKERS_VARIABLE, "") or "0") or 0
        return servers_needed(self._place.size, self._environment, minimum)

    def _first_host(self) -> str:
        host = told_host(self._environment) or self._launcher.first_host(self._environment)
        if not host:
            raise self._refused(
                "no variable says on which machine rank 0 is. Set MASTER_ADDR to the name or the "
                "address of this machine, for all processes"
            )
        return host

    def _secret(self) -> dict[str, str]:
        """Return the secret of the job; nothing if there is nothing that others cannot know."""
        random = self._environment.get(self._launcher.secret, "")
        if self._environment.get("BYTEPS_JOB_SECRET") or not random:
            return {}
        return {"BYTEPS_JOB_SECRET": self._hash(f"secret {random}")}

    def _port(self) -> str:
        return str(port_of(int(self._hash("port"), 16)))

    def _hash(self, purpose: str) -> str:
        text = "\0".join(["byteps", purpose, *self._words])
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def _refused(self, why: str) -> RefusedError:
        return refused(self._launcher, self._place.size, why)
