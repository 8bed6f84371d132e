"""What a process says when an exception or sys.exit ends it: the other ranks hear why."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn

from byteps.common.errors import GIVES_UP
from byteps.common.job.error_text import interrupted, is_heard, is_of_the_job, shown
from byteps.common.job.launch_notes import is_launched

LENGTH_MAX = 1000
_INSIDE = re.compile(r"byteps error \d+: .*")

_Hook = Callable[[type[BaseException], BaseException, "TracebackType | None"], object]


class _Exit(SystemExit):
    """What sys.exit raises here. A weak reference to it notices whether somebody catches it."""


class ExitReason:
    """Stands before sys.excepthook and sys.exit from `begin` to `end`."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """`tell` gets one line about the end of this process, unless the process ends in order."""
        self._tell = tell
        self.was_said = False  # an exception ends this process
        self._next: _Hook | None = None
        # Kept: a bound method is a new object each time.
        self._own: _Hook = self._on_exception
        self._next_exit: Callable[..., NoReturn] | None = None
        self._own_exit: Callable[..., NoReturn] = self._on_exit
        self._exit: weakref.ref[_Exit] | None = None
        self._exit_code: object = None  # of the last sys.exit that nobody has caught

    def begin(self) -> None:
        """Listen, unless that is so already."""
        if self._next is None:
            self._next, sys.excepthook = sys.excepthook, self._own
        if self._next_exit is None:
            self._next_exit, sys.exit = sys.exit, self._own_exit

    def end(self) -> None:
        """Listen no more; a hook that was set after ours stays."""
        if self._next is not None and sys.excepthook is self._own:
            sys.excepthook, self._next = self._next, None
        if self._next_exit is not None and sys.exit is self._own_exit:
            sys.exit, self._next_exit = self._next_exit, None

    def tell_of_exit(self) -> None:
        """Say which sys.exit ends this process, if one does. REQUIRES: the process is ending."""
        if self._exit_code is not None and self._exit_code != 0:
            self._tell(f"it ended with sys.exit({_short(repr(self._exit_code))})")

    def _on_exit(self, status: object = None, /) -> NoReturn:
        error = _Exit(status)
        if threading.current_thread() is threading.main_thread():  # of a thread it is no end
            self._exit_code = status
            self._exit = weakref.ref(error, self._on_exit_over)
        try:
            raise error
        finally:
            del error  # its traceback has this frame, and would keep it alive

    def _on_exit_over(self, _: weakref.ref[_Exit]) -> None:
        # The interpreter lets go of the exception when no function runs any more. So somebody has
        # caught the exception if a function runs.
        if sys._getframe().f_back is not None:
            self._exit_code = None

    def _on_exception(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        self.was_said = True
        following = self._next or sys.__excepthook__
        # Whatever fails here is less than the exception that the user has to see.
        with contextlib.suppress(Exception):
            if is_of_the_job(error):
                error = shown(error)
                kind, trace = type(error), error.__traceback__
                if not is_heard(error):
                    self._tell(f"{GIVES_UP}{_one_line(kind, error)}")
            # Ctrl-C reaches all ranks; one that it has ended alone is missed as one that left.
            elif issubclass(kind, KeyboardInterrupt):
                error = interrupted(error, is_one_of_many=is_launched())
                trace = error.__traceback__
            else:
                self._tell(f"{GIVES_UP}{_one_line(kind, error)}")
        following(kind, error, trace)


def _one_line(kind: type[BaseException], error: BaseException) -> str:
    try:
        # TensorFlow puts an error of the job among the places of its graph.
        inside = _INSIDE.search(str(error))
        words = " ".join((inside[0] if inside else str(error)).split())
        text = f"{kind.__name__}: {words}" if words else kind.__name__
    except Exception:  # of the user's own __str__
        text = f"{kind.__name__}, which has no text"
    return _short(text)


def _short(text: str) -> str:
    # Names of files may hold what no encoding has.
    return text[:LENGTH_MAX].encode("utf-8", "backslashreplace").decode()
