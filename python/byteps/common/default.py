"""The default session: what `init` opens and every plugin uses. The one global of the package."""

from __future__ import annotations

import atexit
import threading

from byteps.common.errors import NotInitializedError
from byteps.common.session import PendingTable, Session


class _Process:
    """This process' part in a job. Handles go on counting when a session follows another."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.session: Session | None = None
        # The session that was shut down last. Its connection to the coordinator says that this
        # process may join the job again, so that servers stay; it ends with the process.
        self.left: Session | None = None
        self.pending = PendingTable()


_process = _Process()


def init(lazy: bool = True) -> None:
    """Join the job that the environment describes; a second call does nothing.

    Blocks until every process of the job is there, with a bound. `lazy` is accepted for programs
    written for the original; joining is never put off, so that errors show where they arise.
    """
    del lazy
    with _process.lock:
        if _process.session is None:
            _process.session = Session()
            _process.left = None
            atexit.register(shutdown)


def shutdown() -> None:
    """Leave the job; `init` may follow. Does nothing when not initialised."""
    with _process.lock:
        session, _process.session = _process.session, None
        atexit.unregister(shutdown)
        if session is not None:
            session.shutdown()
            _process.left = session


def current() -> Session:
    """Return the default session, or raise NotInitializedError."""
    session = _process.session
    if session is None:
        raise NotInitializedError
    return session


def pending() -> PendingTable:
    """Return the operations of this process that nobody has synchronized yet."""
    return _process.pending


def is_initialized() -> bool:
    """Return whether `init` was called and `shutdown` was not."""
    return _process.session is not None


def rank() -> int:
    """Return the number of this process among all workers, from 0."""
    return current().rank


def size() -> int:
    """Return the number of worker processes."""
    return current().size


def members() -> list[int]:
    """Return the ranks that take part in the job now: fewer than `size` when some were lost."""
    return current().members()


def local_rank() -> int:
    """Return the number of this process among the workers of its machine, from 0."""
    return current().local_rank


def local_size() -> int:
    """Return the number of workers on this machine."""
    return current().local_size


def declare(name: str) -> int:
    """Give `name` its place in the order of urgency before its first use. Returns 0."""
    current().declare(name)
    return 0


def get_pushpull_speed() -> tuple[int, float]:
    """Return (ms since the epoch, MB/s) of the newest window; (0, -5.0) when there is none."""
    window_ms, megabytes_per_second, end_ms = current().speed()
    return (end_ms, megabytes_per_second) if window_ms else (0, -5.0)
