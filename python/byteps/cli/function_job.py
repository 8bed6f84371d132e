"""`byteps.run`: a function as the program of a job on this machine."""

from __future__ import annotations

import json
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from byteps.cli.launched_job import launched
from byteps.common.errors import BytepsError, InvalidArgumentError

FUNCTION_FILE = "function.pickle"


class FunctionError(BytepsError):
    """A function that `byteps.run` has run did not return on all ranks.

    `rank` is the rank that raised first, and `traceback` its traceback as text; None if the job has
    ended in another way.
    """

    def __init__(self, text: str, rank: int | None = None, traceback: str | None = None) -> None:
        """Make one."""
        super().__init__(text)
        self.rank = rank
        self.traceback = traceback


def result_file(rank: int) -> str:
    """Return the name of the file with what the function has returned on a rank."""
    return f"result-{rank}.pickle"


def error_file(rank: int) -> str:
    """Return the name of the file that tells of an exception on a rank."""
    return f"error-{rank}.json"


def run(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    np: int = 1,
    servers: int | None = None,
) -> list[Any]:
    """Call a function on `np` new processes of this machine; return its results in rank order.

    The processes are the workers of a job, so the function calls `init` as a program does. What
    they print goes to this process' output. `servers` is what `bps run --servers` is. The function,
    its arguments and its results travel by cloudpickle. Raises FunctionError, with the remote
    traceback, if the function raises on a rank; then the other ranks are ended.

    Example::

        def train(learning_rate):
            import byteps.torch as bps
            bps.init()
            return bps.rank() * learning_rate

        assert byteps.run(train, args=(0.5,), np=2) == [0.0, 0.5]
    """
    if np < 1:
        raise InvalidArgumentError(f"np is {np}; a job has at least one worker.")
    import cloudpickle

    with tempfile.TemporaryDirectory(prefix="byteps-run-") as name:  # nobody else may read it
        folder = Path(name)
        call = (function, tuple(args), dict(kwargs or {}))
        (folder / FUNCTION_FILE).write_bytes(cloudpickle.dumps(call))
        code = _run_job(folder, np, servers)
        _raise_if_failed(folder, np, code)
        return [pickle.loads((folder / result_file(rank)).read_bytes()) for rank in range(np)]


def _run_job(folder: Path, workers: int, servers: int | None) -> int:
    arguments = ["-np", str(workers), *(["--servers", str(servers)] if servers else [])]
    program = [sys.executable, "-m", "byteps.cli.function_worker", str(folder)]
    # What this process can import, the workers can.
    paths = os.pathsep.join(path for path in sys.path if path)
    with launched([*arguments, *program], {**os.environ, "PYTHONPATH": paths}) as job:
        return job.wait()


def _raise_if_failed(folder: Path, workers: int, code: int) -> None:
    errors = [folder / error_file(rank) for rank in range(workers)]
    found = [(path.stat().st_mtime_ns, json.loads(path.read_text())) for path in errors
             if path.exists()]  # fmt: skip
    if found:
        # One that has only heard of the loss of another rank is not the cause.
        first = min(found, key=lambda one: (one[1]["heard"], one[0]))[1]
        raise FunctionError(
            f"rank {first['rank']} of the function raised {first['what']}\n\n{first['traceback']}",
            first["rank"],
            first["traceback"],
        )
    missing = [rank for rank in range(workers) if not (folder / result_file(rank)).exists()]
    if code != 0 or missing:
        ranks = f"; no result came from ranks {', '.join(map(str, missing))}" if missing else ""
        raise FunctionError(f"the job ended with exit code {code}{ranks}. Its output says why")
