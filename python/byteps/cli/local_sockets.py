"""Local sockets on which processes of this user show what they do.

Their abstract names have a prefix, the user's number and the number of the process. They stand in
/proc/net/unix, and are gone with the process.
"""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

from byteps.common.errors import BytepsError
from byteps.common.job.stack_answers import user_at_other_end

SOCKETS = Path("/proc/net/unix")
ANSWER_LIMIT_S = 3.0
_LISTENS = 0x10000  # in the column of flags (__SO_ACCEPTCON)


def names(prefix: str, sockets: Path = SOCKETS) -> list[tuple[str, int]]:
    """Return the names of this user's sockets that listen, and the processes in these names."""
    try:
        lines = sockets.read_text(errors="replace").splitlines()[1:]
    except OSError as error:
        raise BytepsError(
            f"{sockets} cannot be read ({error.strerror}), so nobody knows which jobs run here. "
            "Start the job with BYTEPS_STATUS_PORT=PORT, and name the port: bps top PORT."
        ) from None
    pattern = re.compile(rf"@{prefix}(\d+)-(\d+)(?:-\d+)?")
    found = []
    for words in map(str.split, lines):
        listens = len(words) == 8 and int(words[3], 16) & _LISTENS
        parts = pattern.fullmatch(words[7]) if listens else None
        if parts and int(parts[1]) == os.geteuid():
            found.append((words[7], int(parts[2])))
    return found


def connect(name: str) -> socket.socket:
    """Return a connection to a socket of this user; `name` has "@" in place of the zero."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(ANSWER_LIMIT_S)
        connection.connect("\0" + name[1:])
        if user_at_other_end(connection) != os.geteuid():
            raise ConnectionError("another user's process listens there")
    except BaseException:
        connection.close()
        raise
    return connection
