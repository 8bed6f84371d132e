"""The command `bpslaunch`: starts one role of a job as the environment says.

The contract is the original's: DMLC_ROLE, DMLC_NUM_WORKER, DMLC_NUM_SERVER, DMLC_PS_ROOT_URI,
DMLC_PS_ROOT_PORT and, for workers, DMLC_WORKER_ID. Without any variable of a job it is `bps run`.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from byteps.cli import torch_variables
from byteps.cli.children import ProcessSpec
from byteps.cli.cores import bound, say_cores
from byteps.cli.local_job import local_job, say_threads, share_cores
from byteps.cli.lost_processes import RESTARTS_DEFAULT, LossPolicy
from byteps.cli.output import open_standard_descriptors
from byteps.cli.supervisor import Supervisor
from byteps.common import environment as settings
from byteps.common.errors import BytepsError
from byteps.common.job.cluster import MIN_WORKERS_VARIABLE, servers_needed
from byteps.common.job.executables import exec_program
from byteps.common.job.launchers import number_of
from byteps.common.job.layout import (
    LOCAL_SIZE_MAX,
    LOCAL_SIZE_VARIABLE,
    LOCAL_SIZES_VARIABLE,
    MACHINES_MAX,
    Layout,
    told_sizes,
)

ROLES = ("worker", "server", "scheduler")
_JOB_VARIABLES = ("DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT")
_GRACE_S = 3.0
_HELP = """
bpslaunch COMMAND [ARGUMENT...]: start one role of a job, as the environment says: DMLC_ROLE is
worker, server or scheduler; DMLC_NUM_WORKER, DMLC_NUM_SERVER, DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT
and, for workers, DMLC_WORKER_ID describe the job. Only a worker needs a command.

Without any of these variables it is `bps run`, which starts a whole job on this machine:
"""
_DEBUGGER = ("gdb", "-ex", "run", "-ex", "bt", "-batch", "--args")


def is_distributed(environment: Mapping[str, str]) -> bool:
    """Return whether the job has servers: more than one worker machine, or the force flag."""
    forced = settings.switch("BYTEPS_FORCE_DISTRIBUTED", environment)
    return forced or environment.get("DMLC_NUM_WORKER", "1").strip() != "1"


def missing_variables(role: str, environment: Mapping[str, str]) -> list[str]:
    """Return the variables that the role needs and that are not set."""
    needed = list(_JOB_VARIABLES)
    if role == "worker":
        alone = environment.get("DMLC_NUM_WORKER", "").strip() == "1"
        if alone and not is_distributed(environment):
            needed = ["DMLC_NUM_WORKER"]
        needed.append("DMLC_WORKER_ID")
    return [name for name in needed if not environment.get(name)]


def local_size(environment: Mapping[str, str]) -> int:
    """Return how many workers run on this machine.

    BYTEPS_LOCAL_SIZES or BYTEPS_LOCAL_SIZE says it; otherwise there is one for each device in
    NVIDIA_VISIBLE_DEVICES.
    """
    listed = _listed_size(environment)
    explicit = environment.get(LOCAL_SIZE_VARIABLE)
    if explicit:
        size = number_of(explicit)
        if size is None or not 1 <= size <= LOCAL_SIZE_MAX:
            raise BytepsError(
                f"{LOCAL_SIZE_VARIABLE} is {explicit!r}; it must be a number from 1 to "
                f"{LOCAL_SIZE_MAX}."
            )
        if listed in (None, size):
            return size
        raise BytepsError(
            f"{LOCAL_SIZE_VARIABLE} is {size}, but {LOCAL_SIZES_VARIABLE} gives machine "
            f"{environment.get('DMLC_WORKER_ID')} {listed} workers; set only one of them."
        )
    if listed is not None:
        return listed
    devices = environment.get("NVIDIA_VISIBLE_DEVICES", "").strip()
    if devices in ("", "all", "none", "void"):  # container images set these words
        return 1
    count = len([device for device in devices.split(",") if device.strip()])
    if count == 0:
        raise BytepsError(f"NVIDIA_VISIBLE_DEVICES is {devices!r}, which names no device.")
    return count


def _listed_size(environment: Mapping[str, str]) -> int | None:
    """Return what BYTEPS_LOCAL_SIZES says of this machine; None if it is not set."""
    sizes = told_sizes(environment)
    if sizes is None:
        return None
    text = environment.get("DMLC_WORKER_ID") or "0"
    machine = number_of(text)
    if machine is None or machine >= len(sizes):
        raise BytepsError(
            f"DMLC_WORKER_ID is {text!r}, but {LOCAL_SIZES_VARIABLE} has machines 0 to "
            f"{len(sizes) - 1}."
        )
    return sizes[machine]


def min_workers(environment: Mapping[str, str]) -> int:
    """Return down to how many workers the job goes on when some die; 0: it needs all."""
    text = environment.get(MIN_WORKERS_VARIABLE, "").strip() or "0"
    number = number_of(text)
    if number is None:
        raise BytepsError(f"{MIN_WORKERS_VARIABLE} is {text!r}; it must be a number from 0.")
    return number


def loss_policy(environment: Mapping[str, str]) -> LossPolicy:
    """Return what the workers of this machine survive.

    Where the job has more of them the scheduler counts; here only the last one matters.
    """
    needed = min_workers(environment)
    return LossPolicy(RESTARTS_DEFAULT, min(1, needed) if is_distributed(environment) else needed)


def worker_specs(command: Sequence[str], environment: Mapping[str, str]) -> list[ProcessSpec]:
    """Return the workers of this machine."""
    size = local_size(environment)
    command = worker_command(command, environment)
    if size > 1 and not is_distributed(environment):
        # Ranks of one machine: they share memory, or a server is started here for them.
        minimum = min_workers(environment)
        servers = servers_needed(size, environment, minimum)
        return local_job(size, servers, command, environment, minimum)
    shared = dict(environment)
    share_cores(shared, size)
    specs = []
    for rank in range(size):
        local = {"BYTEPS_LOCAL_RANK": str(rank), LOCAL_SIZE_VARIABLE: str(size)}
        extra = {"PYTHONUNBUFFERED": "1", **local, **_for_torch(environment, size, rank)}
        specs.append(ProcessSpec(f"local rank {rank}", command, {**shared, **extra}))
    return bound(specs, environment)


def _for_torch(environment: Mapping[str, str], size: int, local_rank: int) -> dict[str, str]:
    """Return who a worker is, as torch is told it; nothing if somebody has given the ranks.

    Only the user knows where rank 0 is (MASTER_ADDR). The backend `byteps` needs no such place.
    """
    machines = number_of(environment.get("DMLC_NUM_WORKER", ""))
    machine = number_of(environment.get("DMLC_WORKER_ID", ""))
    if machines is None or machine is None or environment.get("BYTEPS_GLOBAL_RANK"):
        return {}
    sizes = told_sizes(environment) or (size,) * min(machines, MACHINES_MAX)
    if machine >= len(sizes):
        return {}  # the library says what is wrong
    return torch_variables.of_worker(Layout(tuple(sizes)), machine, local_rank)


def worker_command(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the words that start a worker.

    A single argument that names no program and has a blank or another special character in it is
    a line for the shell, as every command was in the original. Several arguments keep their
    quoting, which was lost there.
    """
    words = list(command)
    is_line = len(words) == 1 and shlex.quote(words[0]) != words[0]
    if is_line and shutil.which(words[0]) is None:
        words = ["sh", "-c", words[0]]
    elif _debugger(environment) and not Path(words[0]).name.startswith("python"):
        words = ["python", *words]
    return [*_debugger(environment), *words]


def _debugger(environment: Mapping[str, str]) -> Sequence[str]:
    """Return the words before a command that print a back trace if it crashes, if asked for."""
    return _DEBUGGER if settings.switch("BYTEPS_ENABLE_GDB", environment) else ()


def _run_workers(command: Sequence[str]) -> int:
    if not command:
        raise BytepsError("No command given: bpslaunch COMMAND [ARGUMENT...]")
    specs, policy = worker_specs(command, os.environ), loss_policy(os.environ)
    # On a terminal the workers keep it, and their errors stand right above the last line.
    reads_errors = not os.isatty(2)
    specs = [replace(one, reads_errors=reads_errors and one.is_worker) for one in specs]
    supervisor = Supervisor(specs, _GRACE_S, prefixed=False, policy=policy)
    say_threads(supervisor, os.environ)
    say_cores(supervisor)
    outcome = supervisor.run()
    workers = {spec.label for spec in specs if spec.is_worker}
    for label in outcome.finished:
        if label in workers:  # "local rank N", or "worker N" where one machine is the whole job
            print(f"BytePS launcher: joined local rank  {label.rpartition(' ')[2]}")
    return outcome.exit_code


def _launch(role: str, command: Sequence[str]) -> int:
    if list(command[:1]) in (["-h"], ["--help"]):
        return _without_role(command[:1])
    if role not in ROLES:
        raise BytepsError(f"DMLC_ROLE is {role!r}; it must be one of {', '.join(ROLES)}.")
    print(f"BytePS launching {role}", flush=True)
    missing = missing_variables(role, os.environ)
    for name in missing:
        print(f"The env {name} is missing", file=sys.stderr)
    if missing:
        return 1
    if role == "worker":
        return _run_workers(command)
    if is_distributed(os.environ):
        exec_program(role, under=_debugger(os.environ))
    print(
        f"BytePS launcher: DMLC_NUM_WORKER is 1, and a job on one machine needs no {role}, so "
        "this process ends. To start each role yourself, set BYTEPS_FORCE_DISTRIBUTED=1 for "
        "all processes."
    )
    return 0


def _without_role(arguments: Sequence[str]) -> int:
    """Start a whole job, unless the environment describes one that has parts elsewhere."""
    from byteps.cli.main import main as bps

    if arguments and arguments[0] in ("-h", "--help"):
        print(_HELP, flush=True)
    else:
        # Not every DMLC_...: some are of other programs, or say only how to reach a network.
        described = sorted(k for k in (*_JOB_VARIABLES, "DMLC_WORKER_ID") if os.environ.get(k))
        if described:
            print("The env DMLC_ROLE is missing", file=sys.stderr)
            says = "says" if len(described) == 1 else "say"
            raise BytepsError(
                f"{', '.join(described)} {says} what job this is part of, but not which part: set "
                "DMLC_ROLE to worker, server or scheduler. A whole job on this machine is started "
                "by: bps run -np 2 COMMAND"
            )
    bps(["run", *arguments])
    return 0


def main() -> NoReturn:
    """Run the command."""
    open_standard_descriptors()
    arguments = sys.argv[1:]
    role = os.environ.get("DMLC_ROLE")
    try:
        if not role:
            sys.exit(_without_role(arguments))
        sys.exit(_launch(role.strip().lower(), arguments))
    except BytepsError as error:
        print(f"bpslaunch: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
