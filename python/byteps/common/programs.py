"""The executables inside the package: `bps-server` and `bps-scheduler`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from byteps.common import environment
from byteps.common.errors import UnavailableError

PROGRAM_BY_ROLE = {"server": "bps-server", "scheduler": "bps-scheduler"}


def find_program(role: str) -> Path:
    """Return the executable of the role, or raise an error that says where it was expected."""
    name = PROGRAM_BY_ROLE.get(role)
    if name is None:
        raise UnavailableError(f"There is no program for the role {role!r}: use server, scheduler.")
    path = environment.program_dir() / name
    if not os.access(path, os.X_OK):
        raise UnavailableError(
            f"{path} is not there or cannot be executed. Install the package (pip install .), or "
            "set BYTEPS_PROGRAM_DIR to the folder that holds it."
        )
    return path


def exec_program(role: str, arguments: Sequence[str] = ()) -> NoReturn:
    """Become the program of the role."""
    path = find_program(role)
    os.execve(path, [str(path), *arguments], {**os.environ, "DMLC_ROLE": role})
