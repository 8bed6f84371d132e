"""A worker: runs programs one after another, each as if it had a process of its own.

To load a framework takes longer than most programs do. An argument is a program with its own
arguments, `{rank}` among them is the rank.
"""

from __future__ import annotations

import os
import runpy
import shlex
import sys
from pathlib import Path

from byteps.common.session import default

programs = sys.argv[1:]
for number, line in enumerate(programs):
    if number > 0:
        default.shutdown()
    sys.argv = shlex.split(line.replace("{rank}", os.environ["BYTEPS_LOCAL_RANK"]))
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
    print(f"ended {Path(sys.argv[0]).stem}", flush=True)
