"""Two workers as actors of a Ray cluster that ends with this program; each runs meeting.py.

Other tests may have a Ray cluster on this machine: "local" starts another one. Its processes are
none of the job's, and some end up to a minute after this program. So the token of the job, by which
a test knows its processes, is for the actors alone.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import ray

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[3] / "examples"), str(HERE.parents[1])]

from processes import TOKEN_VARIABLE  # noqa: E402
from ray_workers import variables_of  # noqa: E402


@ray.remote(num_cpus=1, max_restarts=0)
class Worker:
    """A process of the job."""

    def train(self, variables: dict[str, str], program: str, arguments: list[str]) -> None:
        """Join the job and end as the arguments say."""
        os.environ.update(variables)
        sys.argv = [program, *arguments]
        runpy.run_path(program, run_name="__main__")


token = {TOKEN_VARIABLE: os.environ.pop(TOKEN_VARIABLE)}
ray.init("local", num_cpus=2, include_dashboard=False, runtime_env={"env_vars": token})
ranks = variables_of([("here", "127.0.0.1", 29500)] * 2)
program = str(HERE / "meeting.py")
workers = [Worker.remote() for _ in ranks]
ray.get([w.train.remote(v, program, sys.argv[1:]) for w, v in zip(workers, ranks, strict=True)])
