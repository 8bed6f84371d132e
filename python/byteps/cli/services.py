"""The guard of the services that a worker has started (byteps.common.job.own_services)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping

from byteps.cli.children import ProcessSpec
from byteps.cli.local_job import service
from byteps.cli.lost_processes import RESTARTS_DEFAULT, LossPolicy
from byteps.cli.supervisor import Supervisor
from byteps.common.errors import BytepsError
from byteps.common.job.own_services import JOINED

_GRACE_S = 1.0


def specs(task: Mapping[str, object], environment: Mapping[str, str]) -> list[ProcessSpec]:
    """Return the services that the task names."""
    servers = task["servers"]
    assert isinstance(servers, list)
    found = []
    if task["scheduler"]:
        here = {**environment, "DMLC_PS_ROOT_URI": str(task["listen"])}
        found.append(service("scheduler", "scheduler", here))
    for number in servers:
        found.append(
            service("server", f"server {number}", {**environment, "DMLC_RANK": f"{number}"})
        )
    return found


class _Worker:
    """The worker that has started the guard."""

    def __init__(self, process: int, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._descriptor = os.pidfd_open(process)
        self._has_joined = False
        supervisor.watch(0, self._on_word)
        supervisor.watch(self._descriptor, self._on_end)
        if os.getppid() != process:  # it has ended before, and its number may be another's now
            supervisor.stop(0)

    def _on_word(self) -> None:
        word = os.read(0, 64)
        self._has_joined = self._has_joined or JOINED in word
        if not word:
            self._supervisor.unwatch(0)

    def _on_end(self) -> None:
        self._supervisor.unwatch(self._descriptor)
        if not self._has_joined:  # so the job cannot begin
            self._supervisor.stop(0)


def main() -> None:
    """Run the services until the job ends."""
    task = json.loads(sys.argv[1])
    try:
        supervisor = Supervisor(
            specs(task, os.environ),
            _GRACE_S,
            prefixed=True,
            policy=LossPolicy(RESTARTS_DEFAULT),
            is_part=True,
        )
        _Worker(task["worker"], supervisor)
    except (BytepsError, OSError) as error:
        print(f"byteps: the job's servers cannot be started: {error}", file=sys.stderr)
        sys.exit(1)
    sys.exit(supervisor.run().exit_code)


if __name__ == "__main__":
    main()
