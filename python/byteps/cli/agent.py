"""Runs the part of a job that lies on this host, for a `bps run` on another one.

`bps run --hosts` starts an agent on each host over ssh. The first line of input is the task. More
lines are signals for the processes, workers that have ended elsewhere, and numbers of bytes: so
many bytes of input for rank 0 follow such a line. The end of the input means that `bps run` or its
connection is gone: then the agent ends its processes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from byteps.__version__ import __version__
from byteps.cli.children import ProcessSpec
from byteps.cli.cores import bound, say_cores
from byteps.cli.job_input import InputReceiver
from byteps.cli.local_job import say_threads, service, share_cores
from byteps.cli.lost_processes import LEFT_OUT_EXIT_CODE, LossPolicy
from byteps.cli.output import open_standard_descriptors
from byteps.cli.output_files import OutputFiles
from byteps.cli.ports import take_for_servers
from byteps.cli.supervisor import Supervisor
from byteps.common.errors import BytepsError, RefusedError, UnavailableError

_TASK_BYTES_MAX = 16 << 20
_READ_BYTES = 1 << 16


def read_task() -> tuple[dict[str, Any], bytes]:
    """Return the task, and what has come behind it."""
    data = b""
    while b"\n" not in data:
        more = os.read(0, _READ_BYTES)
        if not more or len(data) > _TASK_BYTES_MAX:
            raise UnavailableError("the connection to bps run ended before the job came.")
        data += more
    line, _, rest = data.partition(b"\n")
    task = json.loads(line)
    if task["version"] != __version__:
        raise RefusedError(
            f"byteps is {__version__} here and {task['version']} where bps run is. Install the "
            "same version on all hosts."
        )
    return task, rest


def specs(task: Mapping[str, Any], environment: Mapping[str, str]) -> list[ProcessSpec]:
    """Return the processes of this host."""
    shared = {**environment, **task["environment"]}
    workers = sum(one["role"] == "worker" for one in task["processes"])
    if workers:
        share_cores(shared, workers)
    ports = iter(task.get("server_ports") or ())
    found = []
    for one in task["processes"]:
        own = {**shared, **one["environment"], "DMLC_ROLE": one["role"]}
        if one["role"] == "worker":
            found.append(ProcessSpec(one["label"], task["command"], own, rank=one["rank"]))
        else:
            if one["role"] == "server" and (port := next(ports, None)) is not None:
                own["DMLC_PORT"] = str(port)
            found.append(service(one["role"], one["label"], own))
    return bound(found, shared) if workers else found


class _Words:
    """What `bps run` says while the job runs."""

    def __init__(self, supervisor: Supervisor, rest: bytes, receiver: InputReceiver | None) -> None:
        """`rest` has come behind the task. Without rank 0 here there is no `receiver`."""
        self._supervisor = supervisor
        self._receiver = receiver
        self._rest = bytearray()
        self._input_left = 0  # bytes of the input that come before the next line
        supervisor.watch(0, self._on_readable)
        self._take(rest)

    def _on_readable(self) -> None:
        data = os.read(0, _READ_BYTES)
        if data:
            self._take(data)
            return
        self._supervisor.unwatch(0)
        self._supervisor.stop(1, "the connection to bps run is gone; ending this host's processes")

    def _take(self, data: bytes) -> None:
        self._rest += data
        while self._rest:
            if self._input_left:
                self._take_input()
                continue
            line, newline, _ = self._rest.partition(b"\n")
            if not newline:
                return
            del self._rest[: len(line) + 1]
            self._on_word(json.loads(line))

    def _on_word(self, word: Mapping[str, Any]) -> None:
        if "signal" in word:
            self._supervisor.pass_signal(word["signal"])
        elif "exited" in word:
            self._supervisor.tell_of_exits(word["exited"])
        elif "input" in word:
            self._input_left = word["input"]
            if self._input_left == 0 and self._receiver is not None:
                self._receiver.end()

    def _take_input(self) -> None:
        data = bytes(self._rest[: self._input_left])
        del self._rest[: len(data)]
        self._input_left -= len(data)
        if self._receiver is not None:
            self._receiver.put(data)


def _run() -> int:
    task, rest = read_task()
    try:
        os.chdir(task["folder"])
    except OSError as error:
        raise UnavailableError(
            f"the working directory of bps run, {task['folder']}, is not on this host: "
            f"{error.strerror}."
        ) from error
    servers = [one["environment"] for one in task["processes"] if one["role"] == "server"]
    if task["server_ports"] is not None and servers:
        first = int(servers[0]["DMLC_RANK"])
        task["server_ports"] = take_for_servers(task["server_ports"], len(servers), first)
    # Without rank 0 here nobody reads it.
    read_end, input_end = os.pipe() if task["input"] is not None else (None, None)
    supervisor = Supervisor(
        specs(task, os.environ),
        task["grace"],
        prefixed=task["prefixed"],
        policy=LossPolicy(
            task["restart"],
            # The scheduler counts the workers of all hosts. A host without any is lost.
            min_workers=min(1, task["min_np"]),
            is_part=True,
            servers_elsewhere=int(task["environment"]["DMLC_NUM_SERVER"]) - len(servers),
        ),
        files=OutputFiles(task["output_dir"]) if task["output_dir"] is not None else None,
        is_part=True,
        stdin=read_end,
        name=f"bps on {task['host']}",
        relays=task["terminal"],
    )
    receiver = None
    if input_end is not None:
        receiver = InputReceiver(supervisor, input_end, task["input"])
    _Words(supervisor, rest, receiver)
    say_cores(supervisor)
    if any(spec.rank == 0 for spec in supervisor.specs):  # once, and not by every host
        say_threads(supervisor, {**os.environ, **task["environment"]})
    outcome = supervisor.run()
    # The end of the scheduler's part is the end of the job, with or without its servers.
    has_scheduler = any(spec.role == "scheduler" for spec in supervisor.specs)
    is_left_out = bool(servers) and bool(outcome.failed) and not has_scheduler
    return outcome.exit_code or (LEFT_OUT_EXIT_CODE if is_left_out else 0)


def main() -> None:
    """Run the agent."""
    open_standard_descriptors()
    try:
        sys.exit(_run())
    except BytepsError as error:
        print(f"[bps on {os.uname().nodename}] {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
