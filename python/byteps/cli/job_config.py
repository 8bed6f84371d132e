"""`bps run --print-config`: what the processes of a job would read from their environments."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from byteps.cli.children import ProcessSpec
from byteps.common.job.executables import find_program

_LIMIT_S = 30


def show_config(specs: Sequence[ProcessSpec]) -> int:
    """Print the options of the first process of each role; return the first exit code not 0.

    A program of the package prints them, for all roles: it has the table of options.
    """
    program = str(find_program("server"))
    shown: set[str] = set()
    code = 0
    for spec in specs:
        if spec.role in shown:
            continue
        shown.add(spec.role)
        print(f"# {spec.label}", flush=True)
        command = [program, "--print-config", spec.role]
        done = subprocess.run(command, env=dict(spec.environment), timeout=_LIMIT_S, check=False)
        code = code or done.returncode
    return code
