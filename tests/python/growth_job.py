"""The resident memory of each role of a job that makes and drops names, shapes, sets, optimizers.

Used by the tests and by `./dev bench growth`. One thread; every wait has a limit.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from pathlib import Path

from processes import LIMIT_S, TOKEN_VARIABLE, carriers, clean_environment
from rank_programs import rank_program

PROGRAM = rank_program("growth")
KINDS = ("names", "shapes", "sets", "optimizers")


def resident_kib(process: int) -> int:
    """Return the resident memory of a process."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def role_of(process: int) -> str:
    """Return what a process of a job is; empty for its launcher."""
    command = Path(f"/proc/{process}/cmdline").read_bytes().decode().split("\0")
    if PROGRAM in command and "byteps.cli" not in command:
        return "worker"
    variables = Path(f"/proc/{process}/environ").read_bytes().decode().split("\0")
    for role in ("scheduler", "server"):
        if f"DMLC_ROLE={role}" in variables:
            return role
    return ""


def largest(token: str) -> dict[str, int]:
    """Return the resident memory, in KiB, of the largest process of each role."""
    found: dict[str, int] = {}
    for process in carriers(token):
        role = role_of(process)
        if role:
            found[role] = max(found.get(role, 0), resident_kib(process))
    return found


def measure(
    kind: str, count: int, parts: int, servers: int, limit_s: float = LIMIT_S
) -> list[dict[str, int]]:
    """Run a job of two ranks; return what its roles have after each part."""
    token = uuid.uuid4().hex
    command = [sys.executable, "-m", "byteps.cli", "run", "-np", "2"]
    command += ["--servers", str(servers)] if servers else []
    command += [sys.executable, PROGRAM, kind, str(count), str(parts)]
    job = subprocess.Popen(
        command,
        env={**clean_environment(), TOKEN_VARIABLE: token},
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert job.stdin is not None
    assert job.stdout is not None
    limit = threading.Timer(limit_s, job.kill)
    limit.start()
    seen: list[dict[str, int]] = []
    try:
        for line in job.stdout:
            if "part" not in line:
                continue
            seen.append(largest(token))
            job.stdin.write("\n")
            job.stdin.flush()
        code = job.wait(LIMIT_S)
    finally:
        limit.cancel()
        job.kill()
        job.wait()
    assert code == 0, f"the job ended with {code}"
    assert len(seen) == parts, f"{len(seen)} of {parts} parts in {limit_s} s"
    return seen
