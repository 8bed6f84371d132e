"""A job of several machines, all on this host, in which the ranks of each are one member."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path

from harness.jobs import free_port
from harness.programs import BPS_SCHEDULER, BPS_SERVER, BUILD, REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests" / "python"))

from kill_job import WORKER, KillJob, WorkerLog

RUN_PLAN = Path(__file__).with_name("run_plan.py")


class MachinesJob(KillJob):
    """Scheduler, servers, and so many ranks on each of so many machines."""

    def __init__(self, folder: Path, nbytes: int, machines: int, ranks: int, servers: int) -> None:
        self.ranks = ranks
        common = {
            "DMLC_PS_ROOT_URI": "127.0.0.1",
            "DMLC_PS_ROOT_PORT": str(free_port()),
            "DMLC_NUM_WORKER": str(machines),
            "DMLC_NUM_SERVER": str(servers),
            "BYTEPS_LOCAL_SIZE": str(ranks),
            "BYTEPS_LOCAL_REDUCE": "1",
            "BYTEPS_MIN_WORKERS": str((machines - 1) * ranks),
            "BYTEPS_JOB_ID": f"machines-{secrets.token_hex(4)}",
            "BYTEPS_JOB_SECRET": secrets.token_hex(16),
        }

        def plan(socket: Path) -> list[str]:
            worker = [sys.executable, str(WORKER), str(socket), str(nbytes)]
            own: list[tuple[list[str], dict[str, str]]] = [
                ([str(BUILD / BPS_SCHEDULER)], {"DMLC_ROLE": "scheduler"})
            ]
            for index in range(servers):
                place = {"DMLC_ROLE": "server", "DMLC_RANK": str(index)}
                own.append(([str(BUILD / BPS_SERVER)], place))
            for rank in range(machines * ranks):
                machine = {"DMLC_ROLE": "worker", "DMLC_WORKER_ID": str(rank // ranks)}
                own.append((worker, {**machine, "BYTEPS_LOCAL_RANK": str(rank % ranks)}))
            programs = [
                {"command": command, "environment": {**common, **words}} for command, words in own
            ]
            path = socket.with_suffix(".plan")
            path.write_text(json.dumps(programs))
            return [sys.executable, str(RUN_PLAN), str(path)]

        super().__init__(folder, nbytes, machines * ranks, servers, launcher=plan)

    def machine_of(self, rank: int) -> list[int]:
        """Return the ranks of the machine that has this rank."""
        first = rank - rank % self.ranks
        return list(range(first, first + self.ranks))

    def unnamed(self, victim: int) -> list[str]:
        """Return the ranks beside a killed one whose error does not name it."""
        name = f"worker {victim} "
        beside = [self.logs[rank] for rank in self.machine_of(victim) if rank != victim]
        self.wait(lambda: all(log.error for log in beside), "the errors of the others beside it")
        return [
            f"rank {log.rank} does not name rank {victim}: {log.error_text}"
            for log in beside
            if name not in log.error_text
        ]

    def _was_lost(self, log: WorkerLog) -> bool:
        machine = [self.logs[rank] for rank in self.machine_of(log.rank) if rank in self.logs]
        return any(not one.left and not self.is_alive(one.pid) for one in machine)
