"""The launchers of other systems: one table of what they tell their processes.

torchrun, Ray Train, mpirun of Open MPI, srun of Slurm and Kubeflow's Trainer give each process its
rank and start no servers; `cluster.py` makes a job of it. Nothing here looks at the environment of
this process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from byteps.common.errors import RefusedError
from byteps.common.job.layout import MACHINES_MAX, Layout

_DIGITS_MAX = 9

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
    # Whether `first_host` names the launcher's machine, on which rank 0 need not be.
    guesses_host: bool = False
    # Whether the launcher ends what a machine's processes leave behind when the last has ended.
    ends_leftovers: bool = False
    # Whether the name of a machine may be unknown until this machine has started.
    names_come_late: bool = False
    # Variables that programs that start ranks may leave out: torch needs only size and rank.
    needed: tuple[str, ...] = ()


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


def refused(launcher: Launcher, size: int, why: str) -> RefusedError:
    """Return the error of one of several processes that cannot be a job."""
    return RefusedError(
        f"{launcher.name} has started {size} processes ({launcher.size}={size}), but {why}. "
        "'bps docs running' says how each launcher starts a job; on one machine, 'bps run "
        f"-np {size} python PROGRAM' does it. If this process is to train alone, set "
        "DMLC_NUM_WORKER=1."
    )


def number_of(text: str) -> int | None:
    """Return the number that the decimal digits of a text stand for; None if it is anything else.

    Of other digits `int` takes some, and some not.
    """
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else None


def needed_number(launcher: Launcher, name: str, environment: Environment) -> int:
    """Return the number in a variable that the launcher must set."""
    text = environment.get(name, "")
    number = number_of(text)
    if number is None:
        size = number_of(environment.get(launcher.size, "")) or 0
        what = f"{name} is {text!r}, which is no number" if text else f"{name} is not set"
        raise refused(launcher, size, what)
    return number


# torchrun, and all who set torch's variables.


def _torch_local_size(environment: Environment, size: int) -> int:
    del size
    return needed_number(_TORCH, "LOCAL_WORLD_SIZE", environment)


def _torch_sizes(environment: Environment, size: int, local_size: int) -> tuple[int, ...] | None:
    """Return the workers of all machines: torchrun says of how many machines they are."""
    machines = number_of(environment.get("GROUP_WORLD_SIZE", ""))
    if not machines or machines * local_size == size:
        return _equal_sizes(environment, size, local_size)
    rest = size - local_size
    if machines != 2 or rest == 0:
        return None
    machine = needed_number(_TORCH, "GROUP_RANK", environment)
    return (local_size, rest) if machine == 0 else (rest, local_size)


def _torch_machine(environment: Environment, place: Place) -> int:
    for name in ("GROUP_RANK", "NODE_RANK"):  # torchrun, Ray
        if environment.get(name):
            return needed_number(_TORCH, name, environment)
    return _machine_in_blocks(_TORCH, place)


def _machine_in_blocks(launcher: Launcher, place: Place) -> int:
    """Return the machine if the first ranks are on the first machine, and so on."""
    machine, local_rank = place.layout.places()[place.rank]
    if local_rank != place.local_rank:
        raise refused(
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
        raise refused(
            _KUBEFLOW,
            size,
            f"PET_NPROC_PER_NODE is {processes}, and only torchrun starts so many on a node: use "
            "'torchrun PROGRAM' in place of 'python PROGRAM'",
        )
    return processes


# Open MPI.


def _mpi_local_size(environment: Environment, size: int) -> int:
    del size
    return needed_number(_OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE", environment)


def _mpi_machine(environment: Environment, place: Place) -> int:
    if not environment.get("OMPI_MCA_rmaps_base_mapping_policy", "").startswith("node"):
        return _machine_in_blocks(_OPEN_MPI, place)
    machine, local_rank = place.layout.places_in_turn()[place.rank]  # mpirun --map-by node
    if local_rank != place.local_rank:
        raise refused(_OPEN_MPI, place.size, "the ranks are not dealt to the machines in turn")
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
        raise refused(_SLURM, size, f"SLURM_STEP_TASKS_PER_NODE is {text!r}")
    sizes: list[int] = []
    for word in text.split(","):
        tasks, _, times = word.rstrip(")").partition("(x")
        sizes += [int(tasks)] * min(int(times or 1), MACHINES_MAX)
    if sum(sizes) != size:
        raise refused(_SLURM, size, f"SLURM_STEP_TASKS_PER_NODE={text} has {sum(sizes)}")
    return tuple(sizes)


def _slurm_local_size(environment: Environment, size: int) -> int:
    sizes = _slurm_sizes(environment, size, 0)
    node = needed_number(_SLURM, "SLURM_NODEID", environment)
    return sizes[node] if node < len(sizes) else 0


def _slurm_machine(environment: Environment, place: Place) -> int:
    del place
    return needed_number(_SLURM, "SLURM_NODEID", environment)


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
    needed=("LOCAL_RANK", "LOCAL_WORLD_SIZE"),
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
    first_host=_slurm_first_host,
    job=("SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"),
    ends_leftovers=True,
)
# The first that says enough. A launcher that another one has started comes before that one.
LAUNCHERS = (_TORCH, _KUBEFLOW, _OPEN_MPI, _SLURM)
