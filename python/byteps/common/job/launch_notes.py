"""What a process of a job tells the launcher that has started it, in one word at a time.

The launcher marks its processes (BYTEPS_LAUNCH_ID) and listens at an address that follows from the
mark. So there is no file, and no descriptor that a program between them would have to pass on.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket

MARKER_VARIABLE = "BYTEPS_LAUNCH_ID"
WORD_BYTES_MAX = 64
JOINED = "joined"
IMPORTED = "torch"  # in this process torch was imported
GROUP = "group "  # of torch.distributed; the name of its backend follows


def address_of(marker: str) -> str:
    """Return where a launcher listens: an abstract address, which needs no folder.

    All users of the machine can see it, and the mark is for the job alone.
    """
    return f"\0byteps-launch-{hashlib.sha256(marker.encode()).hexdigest()[:32]}"


def is_launched() -> bool:
    """Return whether a launcher of ours is around this process."""
    return bool(os.environ.get(MARKER_VARIABLE))


def tell_launcher(word: str) -> None:
    """Tell the nearest launcher around this process, if there is one that listens. Never blocks."""
    marker = os.environ.get(MARKER_VARIABLE, "").rpartition(":")[2]
    if not marker:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(word.encode()[:WORD_BYTES_MAX], address_of(marker))
