"""Jobs that start and stop many times, and jobs that lose a process: nothing is left of them.

TEST_FULL=1 makes it 100 starts, and a limit of 5 s for the end after a kill.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from job_runs import process_of, what_is_missing
from processes import (
    LIMIT_S,
    TOKEN_VARIABLE,
    carriers,
    clean_environment,
    finish,
    wait_for_line,
    wait_until_gone,
)
from rank_programs import rank_program

WORKER = rank_program("small")
FULL = os.environ.get("TEST_FULL") == "1"
STARTS = 100 if FULL else 10
# A busy machine may need longer; the full run is for one that has nothing else to do.
END_LIMIT_S = 5.0 if FULL else LIMIT_S

MISSING = what_is_missing("numpy")
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"byteps and numpy are not installed in this Python: {MISSING}"
)


@pytest.fixture
def environment(tmp_path):
    token = uuid.uuid4().hex
    yield {
        **clean_environment(),
        TOKEN_VARIABLE: token,
        "TMPDIR": str(tmp_path),
        "BYTEPS_LOG_LEVEL": "info",  # says the ports
    }
    assert wait_until_gone(carriers(token)) == {}


def start(environment, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "byteps.cli", "run", "-np", "2", "--servers", "1"]
    command += ["--restart", "0"]
    return subprocess.Popen(
        [*command, sys.executable, WORKER, *arguments],
        env=environment,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ports_of(output: str) -> set[int]:
    """Return the ports that the log says somebody listens on."""
    return {int(port) for port in re.findall(r"(?:listening on|announcing) \S*:(\d+)", output)}


def listening_ports() -> set[int]:
    """Return the TCP ports of this machine on which somebody listens."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == "0A":
                found.add(int(local.rpartition(":")[2], 16))
    return found


def leftovers(environment, output: str) -> list[str]:
    """Return what a job has left behind: processes, files, sockets, shared memory, ports."""
    jobs = set(re.findall(r"job ([0-9a-f]{16})", output))
    ports = ports_of(output)
    assert len(jobs) == 1, output
    assert len(ports) == 2, output
    job = jobs.pop()
    found = [f"process {text}" for text in carriers(environment[TOKEN_VARIABLE]).values()]
    found += [f"file {path}" for path in Path(environment["TMPDIR"]).iterdir()]
    for folder in ("/dev/shm", "/tmp", "/run", "/var/tmp"):
        found += [f"file {path}" for path in Path(folder).glob(f"*{job}*")]
    if job in Path("/proc/net/unix").read_text():
        found.append("a unix socket")
    found += [f"port {port}" for port in ports & listening_ports()]
    return found


def test_many_starts_leave_nothing(environment) -> None:
    for _ in range(STARTS):
        code, out, err = finish(start(environment))
        assert code == 0, out + err
        assert out.count("exchanged") == 2, out
        assert leftovers(environment, out) == []


def test_the_ports_of_a_running_job_are_seen(environment) -> None:
    """Or the check above would prove nothing."""
    process = start(environment, "forever")
    said = wait_for_line(process, "exchanged")
    while len(ports_of(said)) < 2:  # what others have said before may be written later
        said += wait_for_line(process, "\n")
    seen = ports_of(said) & listening_ports()
    present = carriers(environment[TOKEN_VARIABLE])
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT_S)
    assert len(seen) == 2, said
    assert len(present) >= 5, present


@pytest.mark.parametrize("victim", ["scheduler", "server 0", "worker 0", "worker 1"])
def test_a_kill_ends_the_job_by_name_and_leaves_nothing(environment, victim) -> None:
    process = start(environment, "forever")
    wait_for_line(process, "exchanged")
    os.kill(process_of(environment, victim), signal.SIGKILL)
    begin = time.monotonic()
    _, err = process.communicate(timeout=END_LIMIT_S)
    print(f"ended {time.monotonic() - begin:.2f} s after the kill of the {victim}")
    assert process.returncode == 128 + signal.SIGKILL, err
    assert f"{victim} was killed by signal 9 (SIGKILL)" in err
    present = carriers(environment[TOKEN_VARIABLE])
    assert present == {}
    assert list(Path(environment["TMPDIR"]).iterdir()) == []
