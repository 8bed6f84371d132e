"""`bps top`: the state of a running job in the terminal, or as a web page.

It comes from the job's status port, or from the local socket that each job has for its own user.
"""

from __future__ import annotations

import contextlib
import http.client
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import TextIO

from byteps.cli.live_page import LivePage
from byteps.cli.user_jobs import UserJob, chosen_job, user_jobs
from byteps.common.errors import BytepsError

# Go to the first line and clear what is there; the same after the last line.
_HOME, _CLEAR_LINE, _CLEAR_REST = "\x1b[H", "\x1b[K", "\x1b[J"
_ANSWER_LIMIT_S = 5.0
_PAGE_MAX = 4 << 20
# No proxy: it would stand between this process and the job, and knows neither.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def state_of(address: str) -> str:
    """Return the page that the job's status port shows."""
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        raise BytepsError(f"'{address}' is no address: give HOST:PORT, or PORT on this machine.")
    try:
        url = f"http://{host or '127.0.0.1'}:{port}/"
        with _OPENER.open(url, timeout=_ANSWER_LIMIT_S) as answer:
            return answer.read(_PAGE_MAX).decode("utf-8", "replace")
    except (TimeoutError, OSError, urllib.error.URLError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise BytepsError(
            f"no job shows its state at {host or '127.0.0.1'}:{port} ({reason}). Start the job "
            f"with BYTEPS_STATUS_PORT={port}; from another machine, set BYTEPS_STATUS_HOST for it "
            "too, or use a tunnel (ssh -L)."
        ) from None


def state_of_job(job: UserJob) -> str:
    """Return the page that a job of this user shows."""
    try:
        return job.page()[2].decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise BytepsError(f"job {job.name} does not answer any more ({error}).") from None


def top(address: str, every_s: float, once: bool, output: TextIO = sys.stdout) -> int:
    """Show the job at an address until it ends or Ctrl-C; return the exit code."""
    return _show(lambda: state_of(address), every_s, once, output)


def top_of_user(job: str, every_s: float, once: bool, output: TextIO = sys.stdout) -> int:
    """Show a job of this user on this machine, the only one or the one that is named."""
    chosen = chosen_job(job, user_jobs())
    return _show(lambda: state_of_job(chosen), every_s, once, output)


def live_of_user(job: str, output: TextIO = sys.stdout) -> int:
    """Serve the web page of a job of this user until Ctrl-C."""
    page = LivePage(chosen_job(job, user_jobs()))
    output.write(f"open in a browser on this machine: {page.address}\nCtrl-C ends the page.\n")
    output.flush()
    with contextlib.suppress(KeyboardInterrupt):
        page.serve()
    return 0


def _show(look: Callable[[], str], every_s: float, once: bool, output: TextIO) -> int:
    page = look()
    if once or not output.isatty():
        output.write(page)
        return 0
    try:
        output.write(_HOME + _CLEAR_REST)
        pause = threading.Event()
        while True:
            lines = page.splitlines()
            output.write(_HOME + "".join(f"{line}{_CLEAR_LINE}\n" for line in lines) + _CLEAR_REST)
            output.flush()
            pause.wait(every_s)
            try:
                page = look()
            except BytepsError:
                output.write(
                    "\nThe job does not answer any more: it has ended, or it stands still.\n"
                )
                return 0
    except KeyboardInterrupt:
        return 0
