"""A job that a program of ours starts with `bps run`, and that ends with this program."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

from byteps.cli.guard import die_with_launcher

_AFTER_INTERRUPT_S = 30.0


@contextlib.contextmanager
def launched(
    arguments: Sequence[str], environment: Mapping[str, str], stdout: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start `bps run` with these arguments; wait for its end, or end it if an exception comes."""
    job = subprocess.Popen(
        [sys.executable, "-m", "byteps.cli", "run", *arguments],
        env=environment,
        stdout=stdout,
        start_new_session=True,  # Ctrl-C reaches it once, from here
        preexec_fn=die_with_launcher(),
    )
    try:
        yield job
        job.wait()
    except BaseException:  # Ctrl-C, also of a notebook
        job.send_signal(signal.SIGINT)
        try:
            job.wait(_AFTER_INTERRUPT_S)
        except subprocess.TimeoutExpired:
            job.kill()
            job.wait()
        raise
    finally:
        if job.stdout is not None:
            job.stdout.close()
