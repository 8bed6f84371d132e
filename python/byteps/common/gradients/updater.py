"""A thread that updates parameters one by one, and what waits for them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass


@dataclass
class Update:
    """A parameter that waits for its gradient, and what updates it then."""

    parameter: Hashable
    apply: Callable[[], None]


class Updater:
    """The thread that updates parameters, and what they and their users wait for. Any thread."""

    def __init__(self, name: str) -> None:
        """Give the thread a name; it starts with the first update."""
        self._name = name
        self._updates: queue.SimpleQueue[list[Update] | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._pending: set[Hashable] = set()
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None

    def submit(self, updates: list[Update]) -> None:
        """Let the thread do some updates in this order."""
        with self._changed:
            self._pending.update(update.parameter for update in updates)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._updates.put(updates)

    def is_pending(self, parameter: Hashable) -> bool:
        """Return whether an update of the parameter is still to come."""
        return parameter in self._pending

    def wait(self, parameters: Iterable[Hashable] | None = None) -> None:
        """Block until the parameters, or all, are updated; raise what went wrong."""
        if not self._pending and self._error is None:
            return
        wanted = None if parameters is None else set(parameters)
        with self._changed:
            self._changed.wait_for(
                lambda: not (self._pending if wanted is None else self._pending & wanted)
            )
            error, self._error = self._error, None
        if error is not None:
            raise error

    def close(self) -> None:
        """End the thread after the updates that it has."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._updates.put(None)
            if thread is not threading.current_thread():
                thread.join(timeout=1.0)

    def _run(self) -> None:
        # An update that is done must not be kept: it holds the optimizer, whose end ends this.
        while (updates := self._updates.get()) is not None:
            while updates:
                self._update(updates.pop(0))

    def _update(self, update: Update) -> None:
        """Do one update. After an error the gradients still come in, but nothing is changed."""
        try:
            update.apply()
        except Exception as error:
            with self._changed:
                self._error = self._error or error
        finally:
            with self._changed:
                self._pending.discard(update.parameter)
                self._changed.notify_all()
