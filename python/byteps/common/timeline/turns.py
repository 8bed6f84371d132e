"""Steps that come from any thread, and from handlers of signals, and that run one at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class Turns:
    """Runs steps one at a time, in the order in which they come. Any thread.

    Python runs the handler of a signal between two steps of the main thread, also in the middle of
    a step here. The handler cannot wait for that one. So its own step runs after the interrupted
    one, also if the handler raises an exception.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._steps: deque[Callable[[], None]] = deque()  # `append` cannot be interrupted
        self._is_running = False

    def run(self, step: Callable[[], None]) -> None:
        """Run a step, and do not return before it has run, unless a handler has interrupted one."""
        self._steps.append(step)
        with self._lock:
            self._run_all()

    def _run_all(self) -> None:
        if self._is_running:
            return
        try:
            self._is_running = True
            while self._steps:
                self._steps.popleft()()
        finally:
            self._is_running = False
            if self._steps:  # an exception has left them, or a handler has come this late
                self._run_all()
