"""What a worker's standard error says about why it ends."""

from __future__ import annotations

import re

# torch puts the rank in front of the lines of an exception, once or twice.
_RANK = re.compile(rb"^(?:\[rank\d+\]: )+")
# The last line of a traceback: "package.module.SomeError: text", or without a text.
_EXCEPTION = re.compile(rb"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|Warning)\b(?:: |:?$)")
_OWN = b"byteps.common.errors."
# Errors of the job itself that a worker has heard of, also through torch's C++. The others it has
# made.
_HEARD = re.compile(
    rb"^(?:byteps\.common\.errors\.|RuntimeError: .*: )"
    rb"(?:PeerLost|Evicted|Unavailable|Shutdown)Error\b"
)
_LENGTH_MAX = 200


class LastError:
    """The last exception that a process has printed."""

    def __init__(self) -> None:
        self._line = b""

    def note(self, line: bytes) -> None:
        """Look at a line of standard error."""
        line = _RANK.sub(b"", line)
        if _EXCEPTION.match(line):
            self._line = line

    @property
    def text(self) -> str:
        """The exception in one line; empty if there was none."""
        text = self._line.removeprefix(_OWN).decode(errors="replace").strip()
        return text if len(text) <= _LENGTH_MAX else f"{text[:_LENGTH_MAX]}..."

    @property
    def is_heard(self) -> bool:
        """Whether it tells of the end of another process."""
        return _HEARD.match(self._line) is not None
