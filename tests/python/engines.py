"""Programs of others that start jobs: sshd, Slurm, Open MPI and Ray.

`./dev lane engines` unpacks them and runs the tests that are marked with `pytest.mark.engine`. The
arguments of the mark name the programs. If a program is missing, its tests are skipped.
"""

from __future__ import annotations

import functools
import importlib.util
import shutil
import sys
from collections.abc import Callable, Mapping

import slurm_cluster
import ssh_server

# Ray may have a Python of its own, which has byteps too.
RAY_PYTHON = shutil.which("ray-python") or sys.executable


def no_mpi() -> str:
    return "" if shutil.which("mpirun") else "mpirun is not installed (Debian: openmpi-bin)"


def no_ray() -> str:
    if sys.executable == RAY_PYTHON and importlib.util.find_spec("ray") is None:
        return "ray is not installed (pip install ray)"
    return ""


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
