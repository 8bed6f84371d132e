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


def exec_program(role: str, arguments: Sequence[str] = (), under: Sequence[str] = ()) -> NoReturn:
    """Become the program of the role, or the command `under` which it shall run."""
    words = [*under, str(find_program(role)), *arguments]
    try:
        os.execvpe(words[0], words, {**os.environ, "DMLC_ROLE": role})
    except OSError as error:
        raise UnavailableError(f"{words[0]} cannot be started: {error.strerror}.") from error
