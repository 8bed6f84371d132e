"""`bps stack`: where the threads of this user's workers are, as each worker tells it itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

from byteps.cli import local_sockets
from byteps.common.errors import BytepsError
from byteps.common.job.stack_answers import PREFIX

_READ_BYTES = 1 << 16
_ANSWER_MAX = 4 << 20


def show_stacks(process: int | None, output: TextIO = sys.stdout) -> int:
    """Print the stacks of all workers of this user on this machine, or of one; return 1 if a
    worker does not answer."""
    found = [(name, pid) for name, pid in local_sockets.names(PREFIX) if process in (None, pid)]
    # A forked child keeps the socket of its parent, also when this has ended.
    found = [(name, pid) for name, pid in found if Path(f"/proc/{pid}").exists()]
    if not found:
        who = "no process" if process is None else f"process {process} is not one"
        raise BytepsError(
            f"{who} of this user on this machine that is in a job of byteps and runs Python. "
            "Workers of C and C++ do not tell it: gdb -p PROCESS -batch -ex 'thread apply all bt' "
            "does."
        )
    silent = 0
    for place, (name, pid) in enumerate(sorted(found, key=lambda one: one[1])):
        told = _ask(name)
        silent += not told
        text = told or f"process {pid} does not answer{_WHY_SILENT.format(pid=pid)}\n"
        output.write("\n" * (place > 0) + text)
    return 1 if silent else 0


_WHY_SILENT = (
    ": it stands still, or C code in it holds the interpreter. 'py-spy dump --native --pid {pid}' "
    "(pip install py-spy) shows where."
)


def _ask(name: str) -> str:
    """Return what a worker tells; nothing if it does not answer."""
    told = b""
    try:
        with local_sockets.connect(name) as connection:
            while (more := connection.recv(_READ_BYTES)) and len(told) < _ANSWER_MAX:
                told += more
    except OSError:
        return ""
    return told.decode(errors="replace")
