"""An error of a job as the user sees it when nobody catches it: in few lines."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from types import TracebackType

from byteps.common import errors
from byteps.common.errors import BytepsError, InternalError

_PACKAGE = f"{Path(__file__).resolve().parents[2]}/"
_LIBRARIES = ("/site-packages/", "/dist-packages/")
# C++ code that has called Python raises a RuntimeError with the name and text of the error, and
# then lists the frames of the thread that it was raised on.
_OURS = re.compile(rf"(?:^|: )(?:{'|'.join(errors.__all__)}): ")
_STACK = "\n\nAt:\n"
# Errors that a rank gets because another process has ended, or because it has left itself.
_HEARD = (
    errors.PeerLostError,
    errors.EvictedError,
    errors.UnavailableError,
    errors.ShutdownError,
)
_HEARD_TEXT = re.compile(rf"(?:^|: )(?:{'|'.join(kind.__name__ for kind in _HEARD)}): ")


def is_of_the_job(error: BaseException) -> bool:
    """Return whether the job has raised this, also if code in C++ has passed it on."""
    if isinstance(error, BytepsError):
        return True
    return isinstance(error, RuntimeError) and _OURS.search(str(error)) is not None


def is_heard(error: BaseException) -> bool:
    """Return whether an error of the job is no news to the other ranks."""
    if isinstance(error, BytepsError):
        return isinstance(error, _HEARD) or errors.is_passed_on(error)
    return _HEARD_TEXT.search(str(error)) is not None


def shown(error: BaseException) -> BaseException:
    """Return what to print for an error of the job: its traceback ends where the user's program
    has called this package. A defect of this package keeps all frames."""
    if isinstance(error, BytepsError):
        if not isinstance(error, InternalError):
            error.__traceback__ = _up_to_this_package(error.__traceback__)
        return error
    text, stack, _ = str(error).partition(_STACK)
    return type(error)(text).with_traceback(error.__traceback__) if stack else error


def interrupted(error: BaseException, is_one_of_many: bool) -> BaseException:
    """Return what to print for a Ctrl-C: where the user's program was, without our own frames.

    For `is_one_of_many`, ranks that one Ctrl-C has ended, that is a single line.
    """
    trace = _up_to_this_package(error.__traceback__)
    last = traceback.extract_tb(trace)[-1:]
    if not is_one_of_many or not last:
        return error.with_traceback(trace)
    return KeyboardInterrupt(f"in {last[0].filename}, line {last[0].lineno}")


def _up_to_this_package(trace: TracebackType | None) -> TracebackType | None:
    """Return the entries before the last calls into this package; all, if there would be none."""
    entries = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    end = len(entries)
    for place, entry in reversed(list(enumerate(entries))):
        file = entry.tb_frame.f_code.co_filename
        if file.startswith(_PACKAGE):
            end = place
        elif not any(part in file for part in _LIBRARIES):
            break
    if end == 0:
        end = len(entries)
    last: TracebackType | None = None
    for entry in reversed(entries[:end]):
        last = TracebackType(last, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return last
