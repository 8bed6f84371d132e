"""A file for the output of each process, beside what goes to the launcher's own output."""

from __future__ import annotations

import os
from pathlib import Path

from byteps.cli.output import Output
from byteps.common.errors import InvalidArgumentError


class OutputFiles:
    """The files of a folder: `worker-3.log` has all that worker 3 has written, byte for byte."""

    def __init__(self, folder: str) -> None:
        """Make the folder if it is not there."""
        self._folder = Path(folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgumentError(
                f"--output-dir {folder}: the folder cannot be made: {error.strerror}."
            ) from error
        self._files: dict[str, Output] = {}
        self._told: set[str] = set()

    def lost(self) -> list[str]:
        """Return which files take nothing any more, and why; each of them once."""
        errors = {path: file.error for path, file in self._files.items() if path not in self._told}
        lost = {path: error.strerror for path, error in errors.items() if error is not None}
        self._told.update(lost)
        return [f"{path}: {why}" for path, why in lost.items()]

    def of(self, label: str) -> Output:
        """Return the file of a process; one that is started again continues its file."""
        path = str(self._folder / f"{label.replace(' ', '-')}.log")
        if path not in self._files:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            try:
                self._files[path] = Output(os.open(path, flags, 0o666))
            except OSError as error:
                raise InvalidArgumentError(
                    f"{path} cannot be written: {error.strerror}."
                ) from error
        return self._files[path]
