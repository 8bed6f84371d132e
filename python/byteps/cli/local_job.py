"""The processes of a job on this machine and the environment that each of them gets."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence

from byteps.cli import torch_variables
from byteps.cli.children import NOTICES_VARIABLE, ProcessSpec
from byteps.cli.cores import bound
from byteps.cli.ports import free_port
from byteps.cli.supervisor import Supervisor
from byteps.common.job.cluster import MIN_WORKERS_VARIABLE
from byteps.common.job.executables import find_program
from byteps.common.job.launch_environment import LOOPBACK
from byteps.common.job.layout import LOCAL_SIZES_VARIABLE, Layout

# What an outer job may have left in the environment and would mislead this one.
NOT_INHERITED = (
    "BYTEPS_ADDRESS_CIDR",
    "BYTEPS_GLOBAL_RANK",
    "BYTEPS_INTERFACES",
    "BYTEPS_LOCAL_RANK",
    LOCAL_SIZES_VARIABLE,
    "DMLC_INTERFACE",
    "DMLC_NODE_HOST",
    "DMLC_PORT",
    "DMLC_RANK",
    "DMLC_ROLE",
    "DMLC_WORKER_ID",
    NOTICES_VARIABLE,
    *torch_variables.OF_ANOTHER_JOB,
)

_WAITING_VARIABLE = "BYTEPS_WAITING"
_THREADS_VARIABLE = "OMP_NUM_THREADS"


def share_cores(variables: dict[str, str], workers: int) -> None:
    """Give each of several workers of this machine its share of the cores, unless the user has.

    Every rank would start a thread for each core, and they would stand in each other's way.
    """
    if workers > 1:
        cores = len(os.sched_getaffinity(0))
        variables.setdefault(_THREADS_VARIABLE, str(max(1, cores // workers)))


def say_threads(supervisor: Supervisor, environment: Mapping[str, str]) -> None:
    """Let a launcher say what `share_cores` has set. `environment`: what the user has told."""
    workers = [spec for spec in supervisor.specs if spec.is_worker]
    threads = workers[0].environment.get(_THREADS_VARIABLE) if workers else None
    if threads is None or environment.get(_THREADS_VARIABLE) is not None:
        return
    text = (
        f"{_THREADS_VARIABLE} is not set, so each of the {len(workers)} workers of this machine "
        f"gets {threads}: cores / workers. Set it to choose another number."
    )
    supervisor.on_started(lambda: supervisor.say(text))


def local_job(
    num_workers: int,
    num_servers: int,
    command: Sequence[str],
    environment: Mapping[str, str],
    min_workers: int = 0,
) -> list[ProcessSpec]:
    """Return a scheduler, servers and workers: one worker machine with `num_workers` ranks.

    Without servers there is no scheduler either: the workers meet each other. The job id and the
    secret are random, so that no other job can meet this one. Losses of workers are survived down
    to `min_workers`; 0: not at all.
    """
    root_port = free_port()
    job_id = torch_variables.new_job_id(avoid=root_port)
    shared = {
        **{k: v for k, v in environment.items() if k not in NOT_INHERITED},
        **torch_variables.meeting(environment, LOOPBACK, job_id),
        "DMLC_NUM_WORKER": "1",
        "DMLC_NUM_SERVER": str(num_servers),
        "DMLC_PS_ROOT_URI": LOOPBACK,
        "DMLC_PS_ROOT_PORT": str(root_port),
        "BYTEPS_LOCAL_SIZE": str(num_workers),
        "BYTEPS_FORCE_DISTRIBUTED": "1" if num_servers else "0",
        "BYTEPS_JOB_ID": job_id,
        "BYTEPS_JOB_SECRET": secrets.token_hex(16),
        MIN_WORKERS_VARIABLE: str(min_workers),
        "PYTHONUNBUFFERED": "1",
    }
    share_cores(shared, num_workers)
    speaker = {**shared, **waiting_style(True, environment)}
    specs = [service("scheduler", "scheduler", speaker)] if num_servers else []
    shared |= waiting_style(num_servers == 0, environment)
    for index in range(num_servers):
        # A server that is started again takes the place of the one that was lost.
        specs.append(service("server", f"server {index}", {**shared, "DMLC_RANK": str(index)}))
    layout = Layout((num_workers,))
    for rank in range(num_workers):
        extra = {
            "DMLC_ROLE": "worker",
            "DMLC_WORKER_ID": "0",
            "BYTEPS_LOCAL_RANK": str(rank),
            **torch_variables.of_worker(layout, 0, rank),
        }
        specs.append(ProcessSpec(f"worker {rank}", command, {**shared, **extra}, rank=rank))
    return bound(specs, environment)


def waiting_style(speaks: bool, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what lets one process alone show on the launcher's terminal who is missing.

    The scheduler `speaks`; without one the workers do, of which only the one that collects the
    others has something to say. Without a terminal each process decides by itself.
    """
    if environment.get(_WAITING_VARIABLE) or not os.isatty(2):
        return {}
    return {_WAITING_VARIABLE: "line" if speaks else "none"}


def service(role: str, label: str, shared: Mapping[str, str]) -> ProcessSpec:
    """Return a scheduler or a server of the job that the environment `shared` describes."""
    program = str(find_program(role))
    return ProcessSpec(label, [program], {**shared, "DMLC_ROLE": role}, role)
