"""Jobs of ranks of which only torch has heard: `init_process_group(rank=..., world_size=...)`.

A program that starts its ranks itself, as with `torch.multiprocessing.spawn`, says there who each
is and where they meet, and sets no variables for it. What a launcher would have told the ranks
besides (which of them share a machine, and an id of the job) they tell each other through torch's
store.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from pathlib import Path
from typing import Any

import torch.distributed as dist

from byteps.common.errors import InvalidArgumentError
from byteps.common.job.cluster import names_job, told_host
from byteps.common.session import default
from byteps.common.session.bounded_question import BoundedQuestion
from byteps.common.session.flight import LOOK_AROUND_S


def join(rank: int, size: int, store: Any) -> None:
    """Join the job, if that was not done: the environment's, or that of the ranks of this store.

    Collective, of all ranks that torch knows.
    """
    if default.is_initialized() or size == 1 or names_job(size):
        default.init()
    else:
        store = dist.PrefixStore("byteps job", store)
        default.join(ask_ranks(rank, size, _this_machine(), store))


def check_meeting(size: int) -> None:
    """Raise if `size` ranks that nobody else knows of are to meet, and torch is not told where."""
    if default.is_initialized() or size == 1 or names_job(size):
        return
    raise InvalidArgumentError(
        f"init_process_group was called with world_size={size}, and nothing says where these ranks "
        "meet. Set MASTER_ADDR and MASTER_PORT to the address of rank 0's machine and a free port "
        "of it, for all ranks; or pass init_method='tcp://ADDRESS:PORT'; or start the program with "
        f"'bps run -np {size} python PROGRAM', without rank and world_size."
    )


def ask_ranks(rank: int, size: int, machine: str, store: Any) -> dict[str, str]:
    """Return what torchrun would have told this process: rank 0 hears of all machines."""

    def ask() -> dict[str, Any]:
        store.set(f"machine {rank}", machine)
        if rank == 0:
            machines = [store.get(f"machine {other}").decode() for other in range(size)]
            job = {"machines": machines, "host": _meeting_host(store), "id": secrets.token_hex(8)}
            store.set("job", json.dumps(job))
        answer: dict[str, Any] = json.loads(store.get("job").decode())
        return answer

    question = BoundedQuestion(ask)
    while not question.wait(LOOK_AROUND_S):
        pass  # Ctrl-C ends it here
    job = question.answer()
    of_ranks = job["machines"]
    machines = list(dict.fromkeys(of_ranks))
    beside = [other for other in range(size) if of_ranks[other] == of_ranks[rank]]
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(beside.index(rank)),
        "LOCAL_WORLD_SIZE": str(len(beside)),
        "GROUP_RANK": str(machines.index(of_ranks[rank])),
        "BYTEPS_LOCAL_SIZES": ",".join(str(of_ranks.count(machine)) for machine in machines),
        "MASTER_ADDR": job["host"],
        "TORCHELASTIC_RUN_ID": job["id"],
    }


def _this_machine() -> str:
    """Return what processes have in common that can share memory (decision 7, and the user)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        network = Path("/proc/self/ns/net").readlink()
    except OSError:
        return socket.gethostname()
    return f"{boot} {network} {os.getuid()}"


def _meeting_host(store: Any) -> str:
    """Return where other machines find rank 0: torch's store is there, too."""
    told = told_host()
    if told:
        return told
    while not hasattr(store, "host") and hasattr(store, "underlying_store"):
        store = store.underlying_store
    return str(getattr(store, "host", "")) or socket.gethostname()
