"""A job whose processes stand on hosts of their own, so that their links can be cut."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path
from types import TracebackType

from harness.network import LinkOptions, Network, ip
from harness.programs import BPS_SCHEDULER, BPS_SERVER, BUILD, REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests" / "python"))

from kill_job import WORKER, KillJob

PORT = 9000
RUN_PLAN = Path(__file__).with_name("run_plan.py")
FAST_MBIT = 10_000


class CutJob(KillJob):
    """Scheduler, servers and workers, each behind a link of its own."""

    def __init__(self, folder: Path, nbytes: int, workers: int, servers: int) -> None:
        self._network = Network(1 + servers + workers, LinkOptions(FAST_MBIT))
        self._network.__enter__()
        hosts = self._network.hosts
        labels = ["scheduler"]
        labels += [f"server {i}" for i in range(servers)] + [f"worker {i}" for i in range(workers)]
        self._ports = dict(zip(labels, (host.port for host in hosts), strict=True))
        common = {
            "DMLC_PS_ROOT_URI": hosts[0].address,
            "DMLC_PS_ROOT_PORT": str(PORT),
            "DMLC_NUM_WORKER": str(workers),
            "DMLC_NUM_SERVER": str(servers),
            "BYTEPS_JOB_ID": f"cut-{secrets.token_hex(4)}",
            "BYTEPS_JOB_SECRET": secrets.token_hex(16),
            "BYTEPS_MIN_WORKERS": str(workers - 1),
        }

        def plan(socket: Path) -> list[str]:
            worker = [sys.executable, str(WORKER), str(socket), str(nbytes)]
            commands = {
                "scheduler": [str(BUILD / BPS_SCHEDULER)],
                "server": [str(BUILD / BPS_SERVER)],
            }
            programs = []
            for label, host in zip(labels, hosts, strict=True):
                role, _, number = label.partition(" ")
                index = "DMLC_WORKER_ID" if role == "worker" else "DMLC_RANK"
                own = {"DMLC_ROLE": role, index: number}
                programs.append(
                    {
                        "command": [*host.place.prefix, *commands.get(role, worker)],
                        "environment": {**common, **{k: v for k, v in own.items() if v}},
                    }
                )
            path = socket.with_suffix(".plan")
            path.write_text(json.dumps(programs))
            return [sys.executable, str(RUN_PLAN), str(path)]

        try:
            super().__init__(folder, nbytes, workers, servers, launcher=plan)
        except BaseException:
            self._network.__exit__(None, None, None)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._network.__exit__(kind, error, trace)

    def set_link(self, label: str, state: str) -> None:
        """Cut (`down`) or mend (`up`) the link of a process, on the side of the switch."""
        ip("-n", self._network.bridge, "link", "set", self._ports[label], state)
