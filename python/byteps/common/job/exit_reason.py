"""What a process says when an exception ends it: the other ranks hear why."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable
from types import TracebackType

from byteps.common.job.error_text import interrupted, is_of_the_job, shown
from byteps.common.job.launch_notes import is_launched

LENGTH_MAX = 1000
_INSIDE = re.compile(r"byteps error \d+: .*")

_Hook = Callable[[type[BaseException], BaseException, "TracebackType | None"], object]


class ExitReason:
    """Stands before sys.excepthook from `begin` to `end`."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """`tell` gets one line about the exception that nobody has caught."""
        self._tell = tell
        self.was_said = False  # an exception ends this process
        self._next: _Hook | None = None
        # Kept: a bound method is a new object each time.
        self._own: _Hook = self._on_exception

    def begin(self) -> None:
        """Listen, unless that is so already."""
        if self._next is None:
            self._next, sys.excepthook = sys.excepthook, self._own

    def end(self) -> None:
        """Listen no more; a hook that was set after ours stays."""
        if self._next is not None and sys.excepthook is self._own:
            sys.excepthook, self._next = self._next, None

    def _on_exception(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        self.was_said = True
        following = self._next or sys.__excepthook__
        # Whatever fails here is less than the exception that the user has to see.
        with contextlib.suppress(Exception):
            if is_of_the_job(error):  # no news to it
                error = shown(error)
                kind, trace = type(error), error.__traceback__
            # Ctrl-C reaches all ranks; one that it has ended alone is missed as one that left.
            elif issubclass(kind, KeyboardInterrupt):
                error = interrupted(error, is_one_of_many=is_launched())
                trace = error.__traceback__
            else:
                self._tell(_one_line(kind, error))
        following(kind, error, trace)


def _one_line(kind: type[BaseException], error: BaseException) -> str:
    try:
        # TensorFlow puts an error of the job among the places of its graph.
        inside = _INSIDE.search(str(error))
        words = " ".join((inside[0] if inside else str(error)).split())
        text = f"{kind.__name__}: {words}" if words else kind.__name__
    except Exception:  # of the user's own __str__
        text = f"{kind.__name__}, which has no text"
    # Names of files may hold what no encoding has.
    return text[:LENGTH_MAX].encode("utf-8", "backslashreplace").decode()
