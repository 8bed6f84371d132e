"""`bps top`: the state of a running job in the terminal, from its status port."""

from __future__ import annotations

import sys
import threading
import urllib.error
import urllib.request
from typing import TextIO

from byteps.common.errors import BytepsError

# Go to the first line and clear what is there; the same after the last line.
_HOME, _CLEAR_LINE, _CLEAR_REST = "\x1b[H", "\x1b[K", "\x1b[J"
_ANSWER_LIMIT_S = 5.0
_PAGE_MAX = 4 << 20


def state_of(address: str) -> str:
    """Return the page that the job's status port shows."""
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        raise BytepsError(f"'{address}' is no address: give HOST:PORT, or PORT on this machine.")
    try:
        url = f"http://{host or '127.0.0.1'}:{port}/"
        with urllib.request.urlopen(url, timeout=_ANSWER_LIMIT_S) as answer:
            return answer.read(_PAGE_MAX).decode("utf-8", "replace")
    except (TimeoutError, OSError, urllib.error.URLError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise BytepsError(
            f"no job shows its state at {host or '127.0.0.1'}:{port} ({reason}). Start the job "
            f"with BYTEPS_STATUS_PORT={port}; from another machine, set BYTEPS_STATUS_HOST for it "
            "too, or use a tunnel (ssh -L)."
        ) from None


def top(address: str, every_s: float, once: bool, output: TextIO = sys.stdout) -> int:
    """Show the job until it ends or Ctrl-C; return the exit code."""
    page = state_of(address)
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
                page = state_of(address)
            except BytepsError:
                output.write("\nThe job does not answer any more: it has ended.\n")
                return 0
    except KeyboardInterrupt:
        return 0
