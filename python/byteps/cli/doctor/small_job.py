"""Small real jobs: a scheduler and a server on one host, workers on another or on the same."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from byteps.cli.ports import free_port
from byteps.common.job.executables import find_program
from byteps.common.job.launch_environment import LOOPBACK

_START_S = 15
_END_S = 5.0
_SUM_BYTES = 4 << 20
_SUM_WORKERS = 2
# Bytes of a tensor: what a link carries in a quarter of a second, in these limits.
_TENSOR_BYTES_MIN, _TENSOR_BYTES_MAX = 1 << 20, 64 << 20


def tensor_bytes(mbit: float) -> int:
    """Return how large a tensor fits a link of this speed."""
    wanted = int(mbit * 1e6 / 8 / 4)
    return min(max(wanted, _TENSOR_BYTES_MIN), _TENSOR_BYTES_MAX) // 64 * 64


class Services:
    """The scheduler and the server of a job, on this host."""

    def __init__(
        self, host: str, workers: int, ports: Sequence[int] = (), transport: str = "tcp"
    ) -> None:
        """Start them; others reach this machine as `host`, and it by BYTEPS_TRANSPORT.

        `ports`: of the scheduler and of the server; empty: any.
        """
        self.host = host
        port = ports[0] if ports else free_port()
        self.settings = [
            f"root_host={host}",
            f"root_port={port}",
            f"num_worker={workers}",
            "num_server=1",
            "force_distributed=1",
            f"job_id=doctor-{secrets.token_hex(4)}",
            f"job_secret={secrets.token_hex(16)}",
            f"start_timeout_s={_START_S}",
            # A server here stands for one that workers reach over a network.
            "shared_links=0",
            f"transport={transport}",
        ]
        environment = {
            **_clean(os.environ),
            "DMLC_PS_ROOT_URI": host,
            "DMLC_PS_ROOT_PORT": str(port),
            "DMLC_NUM_WORKER": str(workers),
            "DMLC_NUM_SERVER": "1",
            "DMLC_NODE_HOST": host,
            "BYTEPS_FORCE_DISTRIBUTED": "1",
            "BYTEPS_JOB_ID": self.settings[5].partition("=")[2],
            "BYTEPS_JOB_SECRET": self.settings[6].partition("=")[2],
            "BYTEPS_START_TIMEOUT": str(_START_S),
            "BYTEPS_SHARED_LINKS": "0",
            "DMLC_PORT": str(ports[1]) if ports else "0",
            "BYTEPS_TRANSPORT": transport,
        }
        self._processes: list[subprocess.Popen[bytes]] = []
        self.server = 0  # its process
        for role in ("scheduler", "server"):
            process = subprocess.Popen(
                [str(find_program(role))],
                env={**environment, "DMLC_ROLE": role},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            self._processes.append(process)
            self.server = process.pid

    def server_seconds(self) -> float:
        """Return the CPU time that the server has used so far."""
        # The CPU clock of another process, as clock_getcpuclockid(3) makes it.
        return time.clock_gettime((~self.server << 3) | 2)

    def end(self) -> None:
        """End them; they have nothing to save."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        for process in self._processes:
            process.wait(_END_S)


class Worker:
    """A worker of a job, as a process of its own."""

    def __init__(self, settings: list[str], number: int, nbytes: int, seconds: float) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "byteps.cli.doctor.push_pull"],
            env=_clean(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        order = {"settings": [*settings, f"worker_id={number}"]}
        self._order = json.dumps({**order, "bytes": nbytes, "seconds": seconds}) + "\n"
        self._limit_s = 2 * seconds + 60

    def tell(self) -> None:
        """Give it its order, so that all workers can begin before one is waited for."""
        assert self._process.stdin is not None
        self._process.stdin.write(self._order)
        self._process.stdin.flush()

    def result(self) -> dict[str, float]:
        """Wait for its result. Raises RuntimeError with its last line if it fails."""
        try:
            out, err = self._process.communicate(timeout=self._limit_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise RuntimeError(f"no result within {self._limit_s:.0f} s") from None
        if self._process.returncode != 0:
            lines = err.strip().splitlines()
            raise RuntimeError(lines[-1] if lines else f"exit code {self._process.returncode}")
        return dict(json.loads(out.splitlines()[-1]))

    def end(self) -> None:
        """Make sure that it is gone."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def push_pull_mbit(settings: list[str], nbytes: int, seconds: float) -> float:
    """Return the rate of one worker here against the server that the settings name."""
    worker = Worker(settings, 0, nbytes, seconds)
    try:
        worker.tell()
        return worker.result()["mbit"]
    finally:
        worker.end()


def sum_rate_mbit(seconds: float) -> float:
    """Return what one shard of a server here takes in while its thread has a core of its own.

    Two workers push over the loopback address. The rate counts the server's CPU time and not the
    time that passed, so it does not depend on what else runs here.
    """
    services = Services(LOOPBACK, _SUM_WORKERS)
    workers = [Worker(services.settings, i, _SUM_BYTES, seconds) for i in range(_SUM_WORKERS)]
    try:
        for worker in workers:
            worker.tell()
        used = services.server_seconds()
        pushed = sum(worker.result()["bytes"] for worker in workers)
        used = services.server_seconds() - used
        return pushed * 8 / used / 1e6
    finally:
        for worker in workers:
            worker.end()
        services.end()


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment that describes no job."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(("DMLC_", "BYTEPS_")) or name == "BYTEPS_PROGRAM_DIR"
    }
