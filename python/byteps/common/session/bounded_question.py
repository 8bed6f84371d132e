"""What is asked of somebody who may not answer, without waiting longer than one likes."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Generic, TypeVar, cast

Answer = TypeVar("Answer")

# A thread that comes back from torch while the interpreter ends would abort the process.
_LAST_WAIT_S = 0.5


class BoundedQuestion(Generic[Answer]):
    """Asks on a thread of its own: while the process that serves the store stands still, what is
    asked of it does not return."""

    def __init__(self, ask: Callable[[], Answer]) -> None:
        """Begin to ask."""
        self._over = threading.Event()
        self._answer: Answer | None = None
        self._error: Exception | None = None
        atexit.register(self._over.wait, _LAST_WAIT_S)
        # Starts no operations, so it has not the name of the threads that do.
        threading.Thread(target=self._run, args=(ask,), name="c10d-store", daemon=True).start()

    def _run(self, ask: Callable[[], Answer]) -> None:
        try:
            self._answer = ask()
        except Exception as error:
            self._error = error
        self._over.set()
        atexit.unregister(self._over.wait)

    def wait(self, timeout_s: float) -> bool:
        """Block until there is an answer, but not longer; return whether there is one."""
        return self._over.wait(timeout_s)

    def answer(self) -> Answer:
        """Return the answer, or raise why there is none. REQUIRES: `wait` has returned True."""
        if self._error is not None:
            raise self._error
        return cast(Answer, self._answer)
