"""Opens native sessions in such a way that Ctrl-C ends the wait for the other processes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from byteps.common.own_threads import OPENS_SESSION

if TYPE_CHECKING:
    from byteps import _core

_BREAK_OFF_LIMIT_S = 5  # a bit more than a session takes to leave, if its scheduler is there


def open_native(settings: list[str]) -> _core.Session:
    """Open a native session on a helper thread, so that Ctrl-C ends the wait for the others.

    An exception of a signal handler ends the joining, too: this process is not in the job then.
    """
    from byteps import _core

    opening = _core.Opening()
    ended = threading.Event()
    result: list[_core.Session] = []
    errors: list[BaseException] = []

    def open_session() -> None:
        try:
            result.append(_core.Session(settings, opening))
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    try:
        threading.Thread(target=open_session, name=OPENS_SESSION, daemon=True).start()
        ended.wait()
    except BaseException:
        opening.break_off()
        # What can take longer is the end of a question to a name server: not joined yet.
        ended.wait(_BREAK_OFF_LIMIT_S)
        for session in result:  # it was through
            session.shutdown()
        raise
    if errors:
        raise errors[0]
    return result[0]
