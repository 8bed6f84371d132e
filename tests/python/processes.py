"""Helpers for tests that start processes: find them by a token, wait for their end."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

# Where a test counts as hung, not as slow. Three ranks that load and compile a framework use 40 s
# of a core, and other tests run beside them. Twice the limit, for a test and for the end of its
# processes, is below the limit of pytest (300 s): so a failure shows the output.
LIMIT_S = 240.0
SOURCE = Path(__file__).resolve().parents[2] / "python"
TOKEN_VARIABLE = "TEST_TOKEN"
_PORTS, _PORTS_END = 10000, 20000  # there the ports begin that `bps run` chooses


def clean_environment() -> dict[str, str]:
    """Return this process' environment without what belongs to a job."""
    ours = ("DMLC_", "BYTEPS_", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def evicting(after_ms: int = 10_000) -> dict[str, str]:
    """Return what lets a job leave a process behind that has stood still for so long."""
    return {"BYTEPS_EVICTION_TIMEOUT_MS": str(after_ms)}


def command_line(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def launch(
    arguments: Sequence[str], environment: Mapping[str, str], **options
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        arguments,
        env={**environment, "PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def free_ports(count: int) -> list[int]:
    """Return ports that nobody uses now, and that nobody gets before the test uses them.

    They lie below the ports that Linux gives to outgoing connections, of which other tests make
    many, and below those that `bps run` chooses. A file counts them, so that each call of a test on
    this machine gets other ports than the calls before.
    """
    counter = Path(tempfile.gettempdir()) / f"byteps-test-ports-{os.getuid()}"
    ports = _ports_of_tests()
    with counter.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        turn = int(file.read() or 0)
        in_turn = (ports[(turn + i) % len(ports)] for i in range(len(ports)))
        found = list(itertools.islice(filter(_is_free, in_turn), count))
        assert len(found) == count, f"of the ports {ports} only {len(found)} are free"
        file.truncate(0)
        file.write(str(found[-1] + 1 - ports[0]))
    return found


def _ports_of_tests() -> range:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    end = min(first, _PORTS_END)
    return range(max(1024, end - _PORTS), end)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def contract(workers: int, servers: int) -> dict[str, str]:
    """Return what all processes of a job on this machine are told, if each is started by itself."""
    return {
        "DMLC_NUM_WORKER": str(workers),
        "DMLC_NUM_SERVER": str(servers),
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_PS_ROOT_PORT": str(free_ports(1)[0]),
    }


def start_role(
    environment: Mapping[str, str],
    role: str,
    *command: str,
    before: Sequence[str] = (),
    stdin: int | None = None,
    **more: str,
) -> subprocess.Popen[str]:
    """Start one process of a job with `bpslaunch`; its output has its errors, too.

    `command`: of a worker. `before`: the words that stand before `bpslaunch`. `more`: variables.
    """
    return subprocess.Popen(
        [*before, *command_line("byteps.cli.bpslaunch", *command)],
        env={**environment, "DMLC_ROLE": role, **more},
        cwd="/",
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=LIMIT_S)
    return process.returncode, out, err


def wait_for_line(process: subprocess.Popen[str], text: str, of: IO[str] | None = None) -> str:
    """Read the output up to a line with the text, and return it; fail at the end of the output.

    No byte behind that line is read: `finish` returns all of them, also if they came with it.
    `of`: another stream of the process than its output. If the line does not come in time, the
    process is killed, and then its output ends.
    """
    stream = of or process.stdout
    assert stream is not None
    limit = threading.Timer(LIMIT_S, process.kill)
    limit.start()
    read, line = b"", b""
    try:
        while byte := os.read(stream.fileno(), 1):
            line += byte
            if byte == b"\n":
                read, found, line = read + line, text.encode() in line, b""
                if found:
                    return read.decode(errors="replace")
    finally:
        limit.cancel()
    told = (read + line).decode(errors="replace")
    raise AssertionError(f"no line with {text!r}: {told} {process.communicate(timeout=LIMIT_S)}")


def wait_until(is_so: Callable[[], bool]) -> None:
    """Look again and again; for what no event tells of."""
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def carriers(token: str) -> dict[int, str]:
    """Return the live processes that carry the token, with their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if f"{TOKEN_VARIABLE}={token}".encode() in (entry / "environ").read_bytes():
                found[int(entry.name)] = (entry / "cmdline").read_bytes().decode()
        except OSError:
            continue
    return found


def environment_of(process: int) -> dict[str, str]:
    """Return the environment that a process was started with; nothing if it has ended."""
    try:
        entries = Path(f"/proc/{process}/environ").read_bytes().decode().split("\0")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def started_with(token: str, **variables: str) -> list[int]:
    """Return the live processes of a token with these variables, without their descendants."""
    wanted = variables.items()
    found = {one for one in carriers(token) if wanted <= environment_of(one).items()}
    return sorted(one for one in found if not _ancestors(one) & found)


def _ancestors(process: int) -> set[int]:
    found: set[int] = set()
    while process > 1:
        try:
            stat = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            break
        process = int(stat.rpartition(")")[2].split()[1])
        found.add(process)
    return found


def kill_together(processes: Sequence[int]) -> None:
    """Kill processes as if at once: none of them runs any more when the first one is killed."""
    descriptors = [os.pidfd_open(process) for process in processes]
    for descriptor in descriptors:
        signal.pidfd_send_signal(descriptor, signal.SIGSTOP)
    for descriptor in descriptors:
        with contextlib.suppress(ProcessLookupError):  # their launcher was faster
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.close(descriptor)


def wait_until_gone(processes: Mapping[int, str]) -> dict[int, str]:
    """Wait for the end of processes that were found before; return those that are still there."""
    deadline = time.monotonic() + LIMIT_S
    left = {}
    for process, command in processes.items():
        try:
            descriptor = os.pidfd_open(process)
        except ProcessLookupError:
            continue
        ended, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        os.close(descriptor)
        if not ended:
            left[process] = command
    return left
