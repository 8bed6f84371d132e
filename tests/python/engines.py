"""Programs of others that start jobs: sshd, Slurm, Open MPI and Ray.

`./dev lane engines` unpacks them and runs the tests that are marked with `pytest.mark.engine`. The
arguments of the mark name the programs. If a program is missing, its tests are skipped.
"""

from __future__ import annotations

import fcntl
import functools
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import slurm_cluster
import ssh_server
from processes import LIMIT_S

# Ray may have a Python of its own, which has byteps too.
RAY_PYTHON = shutil.which("ray-python") or sys.executable
RAY_VARIABLES = {
    # On a busy machine Ray takes minutes to start, and gives up after one.
    "RAY_raylet_start_wait_time_s": str(round(LIMIT_S)),
    "RAY_gcs_server_request_timeout_seconds": str(round(LIMIT_S)),
    "RAY_DEDUP_LOGS": "0",  # of equal lines of two workers Ray prints one
}


def no_mpi() -> str:
    return "" if shutil.which("mpirun") else "mpirun is not installed (Debian: openmpi-bin)"


def no_ray() -> str:
    if sys.executable == RAY_PYTHON and importlib.util.find_spec("ray") is None:
        return "ray is not installed (pip install ray)"
    return ""


@pytest.fixture
def ray_turn() -> Iterator[None]:
    """Wait until no other process of the tests has a Ray: each is a dozen processes that start."""
    with (Path(tempfile.gettempdir()) / "byteps-tests-ray").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


# With the wait for its turn.
RAY_MARKS = [pytest.mark.engine("ray"), pytest.mark.timeout(8 * LIMIT_S)]

ENGINES: Mapping[str, Callable[[], str]] = {
    "mpi": no_mpi,
    "ray": no_ray,
    "slurm": slurm_cluster.why_not,
    "sshd": ssh_server.why_not,
}


@functools.cache
def why_not(name: str) -> str:
    """Return why tests cannot start this program here; empty when they can."""
    reason = ENGINES[name]()
    return reason and f"no {name}: {reason}. ./dev lane engines has it"
