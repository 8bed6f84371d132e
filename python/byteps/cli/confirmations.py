"""How an agent tells `bps run` how much of the input rank 0 has taken.

An agent has no way back but its output. So it writes a confirmation between what the processes
write to standard error: a zero, a random token, the number of bytes in all, a zero. The launcher
takes confirmations out again. No process knows the token, so no process writes one by accident.
"""

from __future__ import annotations

import re
import secrets

_DIGITS_MAX = 20


def confirmation(token: str, taken: int) -> bytes:
    """Return the bytes that say that rank 0 has taken so many bytes in all."""
    return f"\0{token}:{taken}\0".encode()


class Confirmations:
    """Takes the confirmations out of the standard error of one agent."""

    def __init__(self, token: str | None = None) -> None:
        """Choose a token that nobody can guess, unless it is given."""
        self.token = token or secrets.token_hex(8)
        self.taken = 0  # bytes of the input in all that rank 0 has taken
        self._begin = f"\0{self.token}:".encode()
        self._whole = re.compile(re.escape(self._begin) + rb"(\d{1,%d})\0" % _DIGITS_MAX)
        self._part = re.compile(re.escape(self._begin) + rb"\d{0,%d}" % _DIGITS_MAX)
        self._held = b""

    def take_out(self, data: bytes) -> bytes:
        """Return what was read without confirmations; pass b"" when nothing more comes.

        It holds bytes back that may be the beginning of a confirmation, until more comes.
        """
        more, self._held = self._held + data, b""
        for found in self._whole.finditer(more):
            self.taken = max(self.taken, int(found[1]))
        more = self._whole.sub(b"", more)
        begin = more.rfind(b"\0")
        if data and begin >= 0 and self._may_begin_one(more[begin:]):
            more, self._held = more[:begin], more[begin:]
        return more

    def _may_begin_one(self, data: bytes) -> bool:
        return self._begin.startswith(data) or self._part.fullmatch(data) is not None
