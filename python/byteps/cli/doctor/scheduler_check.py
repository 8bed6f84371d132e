"""Whether a scheduler can be reached, and whether it is one."""

from __future__ import annotations

import secrets
import socket
import statistics
import time

from byteps.cli.doctor import wire
from byteps.common.errors import BytepsError, InvalidArgumentError

_TRIES = 5
_CONNECT_S = 5.0
_ANSWER_S = 5
_PORT_MAX = 65535
# What a scheduler of this version says to a process of another job.
_REFUSAL = "it belongs to another job"


def parse(text: str) -> tuple[str, int]:
    """Return host and port of "host:port" or "[address]:port"."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) <= _PORT_MAX:
        raise InvalidArgumentError(f"{text!r} is no address of a scheduler; write HOST:PORT.")
    return host, int(port)


def look_at(host: str, port: int) -> dict[str, object]:
    """Return the time of a connection, the address that this machine uses, and what answered.

    A stranger asks to be let into a job of another name: a scheduler refuses that with a reason.
    """
    found: dict[str, object] = {"host": host, "port": port}
    times = []
    try:
        for _ in range(_TRIES):
            began = time.perf_counter()
            with socket.create_connection((host, port), timeout=_CONNECT_S) as connection:
                times.append(time.perf_counter() - began)
                found["address_here"] = connection.getsockname()[0]
    except OSError as error:
        return {**found, "problem": wire.explain(error, host, port)}
    found["round_trip_us"] = statistics.median(times) * 1e6
    is_scheduler, answer = _knock(host, port)
    if not is_scheduler:
        found["problem"] = (
            f"{host} accepts connections on port {port}, but it is no scheduler of this version: "
            f"{answer}"
        )
    return found


def _knock(host: str, port: int) -> tuple[bool, str]:
    from byteps import _core

    settings = [
        "role=worker",
        f"root_host={host}",
        f"root_port={port}",
        "num_worker=1",
        "num_server=1",
        "worker_id=0",
        "local_size=1",
        "local_sizes=",
        "local_rank=0",
        "force_distributed=1",
        f"job_id=doctor-{secrets.token_hex(4)}",
        f"start_timeout_s={_ANSWER_S}",
        "log_level=fatal",
    ]
    try:
        _core.Session(settings, _core.Opening()).shutdown()
    except BytepsError as error:
        return _REFUSAL in str(error), str(error)
    return False, "it let a stranger in"
