"""Jobs that launchers of other systems have started: one table of what they tell their processes.

torchrun, Ray Train, mpirun of Open MPI, srun of Slurm and Kubeflow's Trainer give each process its
rank, and start no servers. From their variables `described_job` makes the variables of a job of
BytePS. Every process computes the same job by itself; nothing is exchanged for it. Programs in C
keep the bare contract.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from byteps.common.errors import InvalidArgumentError, RefusedError
from byteps.common.launch_environment import LOOPBACK
from byteps.common.layout import (
    LOCAL_SIZE_VARIABLE,
    LOCAL_SIZES_VARIABLE,
    MACHINES_MAX,
    SIZES_EXPECTED,
    Layout,
    read_sizes,
)

SERVERS_VARIABLE = "BYTEPS_SERVERS"
LOCAL_REDUCE_VARIABLE = "BYTEPS_LOCAL_REDUCE"
MIN_WORKERS_VARIABLE = "BYTEPS_MIN_WORKERS"
# As the library's option has it (src/config/option_rows.cc).
_LOCAL_RANKS_MAX = 64
_DIGITS_MAX = 9
_HOST_VARIABLES = ("DMLC_PS_ROOT_URI", "MASTER_ADDR")
# Below the ports that Linux gives to outgoing connections.
_PORT_FIRST, _PORTS = 20000, 10000

Environment = Mapping[str, str]


def _equal_sizes(environment: Environment, size: int, local_size: int) -> tuple[int, ...] | None:
    """Return the workers of all machines if they can be equal."""
    del environment
    return (local_size,) * (size // local_size) if size % local_size == 0 else None


@dataclass(frozen=True)
class Launcher:
    """A row of the table: the variables of one launcher, and how to read the rest from them."""

    name: str
    size: str
    rank: str
    local_rank: str  # empty: each machine has one process
    local_size: Callable[[Environment, int], int]
    # Returns the number of this process' machine.
    machine: Callable[[Environment, Place], int]
    # Returns the name of the machine of rank 0; empty: the launcher does not say it.
    first_host: Callable[[Environment], str]
    # Variables that are the same for all processes of a job, and not the same for two jobs.
    job: tuple[str, ...]
    # A variable with a random text that only the job's processes know; empty: there is none.
    secret: str = ""
    # Returns the workers of all machines, from the number of all and that of this machine; None:
    # the launcher does not say them.
    sizes: Callable[[Environment, int, int], tuple[int, ...] | None] = _equal_sizes
    # Whether the ranks of each machine follow one another, which all processes of a machine know.
    in_blocks: Callable[[Environment, Place], bool] = lambda environment, place: True
    # Whether `first_host` names the launcher's machine, on which rank 0 need not be.
    guesses_host: bool = False
    # Whether the launcher ends what a machine's processes leave behind when the last has ended.
    ends_leftovers: bool = False
    # Whether the name of a machine may be unknown until this machine has started.
    names_come_late: bool = False


@dataclass(frozen=True)
class Place:
    """Which of the processes this one is."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    layout: Layout

    @property
    def machines(self) -> int:
        """Return the number of machines."""
        return self.layout.machines


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
        _needed_number(launcher, name, environment) for name in (launcher.size, launcher.rank)
    )
    local_rank = (
        _needed_number(launcher, launcher.local_rank, environment) if launcher.local_rank else 0
    )
    local_size = launcher.local_size(environment, size)
    if not 1 <= local_size <= size or local_rank >= local_size or rank >= size:
        raise _refused(launcher, size, f"rank {rank} of {size}, local rank {local_rank} of "
                       f"{local_size} cannot be")  # fmt: skip
    layout = Layout(_sizes(launcher, environment, size, local_size))
    return Place(rank, size, local_rank, local_size, layout)


def _sizes(
    launcher: Launcher, environment: Environment, size: int, local_size: int
) -> tuple[int, ...]:
    """Return the workers of all machines: what the user says, or what the launcher says."""
    text = environment.get(LOCAL_SIZES_VARIABLE, "").strip()
    if text:
        told = read_sizes(text)
        if told is None:
            raise InvalidArgumentError(
                f"{LOCAL_SIZES_VARIABLE} is {text!r}; it must be {SIZES_EXPECTED}."
            )
        if sum(told) != size:
            raise _refused(launcher, size, f"{LOCAL_SIZES_VARIABLE}={text} has {sum(told)}")
        return told
    sizes = launcher.sizes(environment, size, local_size)
    if sizes is None:
        raise _refused(
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
        told = any(environment.get(name) for name in _HOST_VARIABLES)
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
        """Return the rank, if it does not follow from the machine and the number within it.

        Where each rank is named, the ranks of a machine do not sum together unless the user says
        so: one process alone cannot know whether all of them follow one another.
        """
        place = self._place
        follows = place.rank == place.layout.first_rank(machine) + place.local_rank
        if place.machines > 1 and follows and self._launcher.in_blocks(self._environment, place):
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
        for name in _HOST_VARIABLES:
            if self._environment.get(name):
                return self._environment[name]
        host = self._launcher.first_host(self._environment)
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
        return _refused(self._launcher, self._place.size, why)


def _refused(launcher: Launcher, size: int, why: str) -> RefusedError:
    return RefusedError(
        f"{launcher.name} has started {size} processes ({launcher.size}={size}), but {why}. "
        "docs/running.md says how each launcher starts a job; on one machine, 'bps run "
        f"-np {size} python PROGRAM' does it. If this process is to train alone, set "
        "DMLC_NUM_WORKER=1."
    )


def number_of(text: str) -> int | None:
    """Return the number that the decimal digits of a text stand for; None if it is anything else.

    Of other digits `int` takes some, and some not.
    """
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else None


def _needed_number(launcher: Launcher, name: str, environment: Environment) -> int:
    text = environment.get(name, "")
    number = number_of(text)
    if number is None:
        size = number_of(environment.get(launcher.size, "")) or 0
        what = f"{name} is {text!r}, which is no number" if text else f"{name} is not set"
        raise _refused(launcher, size, what)
    return number


# torchrun, and all who set torch's variables.


def _torch_local_size(environment: Environment, size: int) -> int:
    del size
    return _needed_number(_TORCH, "LOCAL_WORLD_SIZE", environment)


def _torch_sizes(environment: Environment, size: int, local_size: int) -> tuple[int, ...] | None:
    """Return the workers of all machines: torchrun says of how many machines they are."""
    if number_of(environment.get("GROUP_WORLD_SIZE", "")) != 2 or local_size == size:
        return _equal_sizes(environment, size, local_size)
    machine = _needed_number(_TORCH, "GROUP_RANK", environment)
    rest = size - local_size
    return (local_size, rest) if machine == 0 else (rest, local_size)


def _torch_machine(environment: Environment, place: Place) -> int:
    for name in ("GROUP_RANK", "NODE_RANK"):  # torchrun, Ray
        if environment.get(name):
            return _needed_number(_TORCH, name, environment)
    return _machine_in_blocks(_TORCH, place)


def _machine_in_blocks(launcher: Launcher, place: Place) -> int:
    """Return the machine if the first ranks are on the first machine, and so on."""
    machine, local_rank = place.layout.places()[place.rank]
    if local_rank != place.local_rank:
        raise _refused(
            launcher,
            place.size,
            f"rank {place.rank} is local rank {place.local_rank} of {place.local_size}, so the "
            "ranks of a machine do not follow each other",
        )
    return machine


# Kubeflow's Trainer, and all who set torchrun's own variables. Under torchrun its processes have
# those of the row above, too.


def _node_local_size(environment: Environment, size: int) -> int:
    processes = number_of(environment.get("PET_NPROC_PER_NODE", "")) or 1  # "auto": no number
    if processes > 1:
        raise _refused(
            _KUBEFLOW,
            size,
            f"PET_NPROC_PER_NODE is {processes}, and only torchrun starts so many on a node: use "
            "'torchrun PROGRAM' in place of 'python PROGRAM'",
        )
    return processes


# Open MPI.


def _mpi_local_size(environment: Environment, size: int) -> int:
    del size
    return _needed_number(_OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE", environment)


def _mpi_in_blocks(environment: Environment, place: Place) -> bool:
    del place
    return not environment.get("OMPI_MCA_rmaps_base_mapping_policy", "").startswith("node")


def _mpi_machine(environment: Environment, place: Place) -> int:
    if _mpi_in_blocks(environment, place):
        return _machine_in_blocks(_OPEN_MPI, place)
    machine, local_rank = place.layout.places_in_turn()[place.rank]  # mpirun --map-by node
    if local_rank != place.local_rank:
        raise _refused(_OPEN_MPI, place.size, "the ranks are not dealt to the machines in turn")
    return machine


def _mpi_first_host(environment: Environment) -> str:
    """Return the address of mpirun's machine, on which rank 0 is, too, in most jobs."""
    uri = environment.get("OMPI_MCA_orte_hnp_uri", "")
    for word in uri.split(";"):
        scheme, _, rest = word.partition("://")
        if scheme == "tcp":
            return rest.partition(":")[0].partition(",")[0]
    return ""


# Slurm.


def _slurm_sizes(environment: Environment, size: int, local_size: int) -> tuple[int, ...]:
    """Return the tasks of each node, from a text such as `2(x3)` or `4,2(x2)`."""
    del local_size
    text = environment.get("SLURM_STEP_TASKS_PER_NODE", "")
    words = re.fullmatch(r"(\d+(\(x\d+\))?)(,\d+(\(x\d+\))?)*", text)
    if words is None:
        raise _refused(_SLURM, size, f"SLURM_STEP_TASKS_PER_NODE is {text!r}")
    sizes: list[int] = []
    for word in text.split(","):
        tasks, _, times = word.rstrip(")").partition("(x")
        sizes += [int(tasks)] * min(int(times or 1), MACHINES_MAX)
    if sum(sizes) != size:
        raise _refused(_SLURM, size, f"SLURM_STEP_TASKS_PER_NODE={text} has {sum(sizes)}")
    return tuple(sizes)


def _slurm_local_size(environment: Environment, size: int) -> int:
    sizes = _slurm_sizes(environment, size, 0)
    node = _needed_number(_SLURM, "SLURM_NODEID", environment)
    return sizes[node] if node < len(sizes) else 0


def _slurm_machine(environment: Environment, place: Place) -> int:
    del place
    return _needed_number(_SLURM, "SLURM_NODEID", environment)


def _slurm_in_blocks(environment: Environment, place: Place) -> bool:
    """Return whether the ranks of this node, a text such as `4,5,6,7`, follow one another."""
    first = place.layout.first_rank(_needed_number(_SLURM, "SLURM_NODEID", environment))
    numbers = [number_of(text) for text in environment.get("SLURM_GTIDS", "").split(",")]
    return numbers == list(range(first, first + place.local_size))


def _slurm_first_host(environment: Environment) -> str:
    """Return the first name of a list such as `gpu[07-09,12],login`."""
    text = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST", "")
    first = re.match(r"[^,\[]*(\[[^\]]*\])?[^,\[]*", text)
    name = first.group() if first else ""
    return re.sub(r"\[(\w+)[^\]]*\]", r"\1", name)


_TORCH = Launcher(
    "torchrun, Ray or another launcher for torch",
    size="WORLD_SIZE",
    rank="RANK",
    local_rank="LOCAL_RANK",
    local_size=_torch_local_size,
    sizes=_torch_sizes,
    machine=_torch_machine,
    first_host=lambda environment: environment.get("MASTER_ADDR", ""),
    job=("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
)
_KUBEFLOW = Launcher(
    "Kubeflow's Trainer",
    size="PET_NNODES",
    rank="PET_NODE_RANK",
    local_rank="",
    local_size=_node_local_size,
    machine=lambda environment, place: place.rank,
    first_host=lambda environment: environment.get("PET_MASTER_ADDR", ""),
    job=("PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_RDZV_ID"),
    names_come_late=True,
)
_OPEN_MPI = Launcher(
    "mpirun of Open MPI",
    size="OMPI_COMM_WORLD_SIZE",
    rank="OMPI_COMM_WORLD_RANK",
    local_rank="OMPI_COMM_WORLD_LOCAL_RANK",
    local_size=_mpi_local_size,
    machine=_mpi_machine,
    in_blocks=_mpi_in_blocks,
    first_host=_mpi_first_host,
    job=("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"),
    secret="OMPI_MCA_orte_precondition_transports",
    guesses_host=True,
)
_SLURM = Launcher(
    # Not SLURM_NTASKS: a batch script has it, too, beside SLURM_PROCID, and is one process.
    "srun of Slurm",
    size="SLURM_STEP_NUM_TASKS",
    rank="SLURM_PROCID",
    local_rank="SLURM_LOCALID",
    local_size=_slurm_local_size,
    sizes=_slurm_sizes,
    machine=_slurm_machine,
    in_blocks=_slurm_in_blocks,
    first_host=_slurm_first_host,
    job=("SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"),
    ends_leftovers=True,
)
# The first that says enough. A launcher that another one has started comes before that one.
LAUNCHERS = (_TORCH, _KUBEFLOW, _OPEN_MPI, _SLURM)
