"""What torchrun sets for its processes, for the workers of a job of ours.

So a program that knows only torch's variables joins the job, too: with any backend it finds the
other ranks, and libraries over torch see that there are some.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from byteps.cli.ports import is_free
from byteps.common.job.cluster import torch_port
from byteps.common.job.launch_environment import LOOPBACK
from byteps.common.job.layout import Layout

# Of these each process has its own, or they describe a job: what another launcher has left of them
# in the environment is about another job.
OF_ANOTHER_JOB = (
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "RANK",
    "ROLE_NAME",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
    "WORLD_SIZE",
)
_PORT_TRIES = 100


def new_job_id(avoid: int) -> str:
    """Return a random id for a job, of which nobody here uses the port that torch gets.

    `avoid`: a port that is taken in a moment.
    """
    job_id = secrets.token_hex(8)
    for _ in range(_PORT_TRIES):
        if torch_port(job_id) != avoid and is_free(torch_port(job_id)):
            break
        job_id = secrets.token_hex(8)
    return job_id


def meeting(environment: Mapping[str, str], first_host: str, job_id: str) -> dict[str, str]:
    """Return where the ranks of a job meet, as torch is told it: what the user says, or ours.

    In a process of another job MASTER_ADDR and MASTER_PORT are where that one meets.
    """
    ours = {"MASTER_ADDR": first_host or LOOPBACK, "MASTER_PORT": str(torch_port(job_id))}
    if environment.get("RANK") or environment.get("TORCHELASTIC_RUN_ID"):
        return ours
    return {name: environment.get(name) or value for name, value in ours.items()}


def of_worker(layout: Layout, machine: int, local_rank: int) -> dict[str, str]:
    """Return who a worker is, as torch is told it."""
    rank, size = str(layout.first_rank(machine) + local_rank), str(layout.size)
    return {
        "RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(layout.sizes[machine]),
        "GROUP_RANK": str(machine),
        "GROUP_WORLD_SIZE": str(layout.machines),
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": size,
    }
