"""Jobs of the kinds that are compared: byteps, Gloo, Open MPI, plain sockets."""

from __future__ import annotations

import secrets
import shlex
import shutil
import socket
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.programs import (
    BENCH_OPENMPI,
    BENCH_PUSH_PULL,
    BENCH_SOCKET,
    BPS_SCHEDULER,
    BPS_SERVER,
    BUILD,
    GLOO_BENCH,
    LIBRARY_FOLDER,
    Fleet,
    Place,
    Program,
    Sample,
    run_together,
)

START_LIMIT_S = 120


@dataclass
class Job:
    """Programs that follow the same commands, and those that help them."""

    kind: str
    workers: list[Program]
    helpers: list[Program] = field(default_factory=list)

    def run(self, line: str, iterations: int = 1) -> Sample:
        """Run one case once."""
        return run_together(self.workers, line, self.helpers, iterations)


@dataclass
class Meeting:
    """Where the processes of a job meet."""

    host: str
    port: int


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def start_byteps(
    fleet: Fleet,
    meeting: Meeting,
    scheduler: Place,
    servers: Sequence[Place],
    workers: Sequence[Place],
    options: Mapping[str, str] | None = None,
    build: Path = BUILD,
    ranks: int = 1,
    program: Sequence[str | Path] = (),
) -> Job:
    """Start scheduler, servers and workers of a byteps job, from a folder of programs.

    Each place of a worker is a machine with so many ranks. The workers are bench_push_pull, if no
    other program is given.
    """
    common = {
        "DMLC_PS_ROOT_URI": meeting.host,
        "DMLC_PS_ROOT_PORT": str(meeting.port),
        "DMLC_NUM_WORKER": str(len(workers)),
        "DMLC_NUM_SERVER": str(len(servers)),
        "BYTEPS_JOB_ID": f"bench-{secrets.token_hex(4)}",
        "BYTEPS_JOB_SECRET": secrets.token_hex(16),
        "BYTEPS_START_TIMEOUT": str(START_LIMIT_S),
        "BYTEPS_FORCE_DISTRIBUTED": "1",
        "BYTEPS_LOCAL_SIZE": str(ranks),
        **(options or {}),
    }
    # Else the programs of another build would load the library of this one.
    ours = {**common, "LD_LIBRARY_PATH": str(build / LIBRARY_FOLDER)}
    helpers = [
        fleet.start(
            "scheduler", scheduler, [build / BPS_SCHEDULER], {**ours, "DMLC_ROLE": "scheduler"}
        )
    ]
    for i, place in enumerate(servers):
        helpers.append(
            fleet.start(f"server {i}", place, [build / BPS_SERVER], {**ours, "DMLC_ROLE": "server"})
        )
    started = [
        fleet.start(
            f"worker {i * ranks + local}",
            place,
            program or [build / BENCH_PUSH_PULL, "--commands"],
            {
                **(common if program else ours),
                "DMLC_ROLE": "worker",
                "DMLC_WORKER_ID": str(i),
                "BYTEPS_LOCAL_RANK": str(local),
                "BYTEPS_LOCAL_SIZE": str(ranks),
            },
        )
        for i, place in enumerate(workers)
        for local in range(ranks)
    ]
    return Job("byteps", started, helpers)


def start_gloo(
    fleet: Fleet,
    meeting: Meeting,
    workers: Sequence[Place],
    interface: str = "lo",
    program: Sequence[str | Path] = (GLOO_BENCH,),
) -> Job:
    """Start a Gloo group; each rank says when it is there."""
    started = [
        fleet.start(
            f"gloo {i}",
            place,
            [sys.executable, *program],
            {
                "MASTER_ADDR": meeting.host,
                "MASTER_PORT": str(meeting.port),
                "RANK": str(i),
                "WORLD_SIZE": str(len(workers)),
                "GLOO_SOCKET_IFNAME": interface,
                "OMP_NUM_THREADS": "1",
            },
        )
        for i, place in enumerate(workers)
    ]
    return Job("gloo", started)


def has_openmpi() -> bool:
    """Return whether Open MPI is there and its program is built."""
    return BENCH_OPENMPI.exists() and shutil.which("mpirun") is not None


def start_openmpi(fleet: Fleet, workers: Sequence[tuple[Place, str]], folder: Path) -> Job:
    """Start mpirun at the first worker's place; it answers for all ranks.

    Each worker has a place and an address. mpirun starts its helpers through a script in `folder`,
    in place of ssh.
    """
    agent = folder / "agent"
    lines = [
        f'{address}) exec {shlex.join(place.prefix)} sh -c "$*" ;;' for place, address in workers
    ]
    agent.write_text(
        "\n".join(["#!/bin/sh", "host=$1", "shift", "case $host in", *lines, "esac\n"])
    )
    agent.chmod(0o755)
    settings = {
        "plm_rsh_agent": str(agent),
        "oob_tcp_if_include": "eth0",
        "btl": "self,tcp",
        "btl_tcp_if_include": "eth0",
    }
    words = [word for pair in settings.items() for word in ("--mca", *pair)]
    hosts = ",".join(f"{address}:1" for _, address in workers)
    command = ["mpirun", "--allow-run-as-root", *words, "--bind-to", "none", "--host", hosts]
    return Job("openmpi", [fleet.start("openmpi", workers[0][0], [*command, BENCH_OPENMPI])])


def start_sockets(
    fleet: Fleet, servers: Sequence[tuple[Place, str]], clients: Sequence[Place]
) -> Job:
    """Start plain socket servers, each at its address, and clients of all of them."""
    helpers = [
        fleet.start(f"socket server {i}", place, [BENCH_SOCKET, "serve", "0"])
        for i, (place, _) in enumerate(servers)
    ]
    addresses = [
        f"{host}:{helper.answer()['port']}"
        for helper, (_, host) in zip(helpers, servers, strict=True)
    ]
    started = [
        fleet.start(f"client {i}", place, [BENCH_SOCKET, *addresses])
        for i, place in enumerate(clients)
    ]
    return Job("sockets", started, helpers)


def median(values: Sequence[float]) -> float:
    """Return the middle value."""
    return statistics.median(values)
