"""Lets a worker show its user where its threads are: `bps stack` asks it on a local socket.

A thread of the worker answers. It needs the interpreter for a moment, so a worker that stands in C
code with the interpreter held does not answer, and nothing happens to it. The socket's abstract
name is gone with the process.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
import threading
import traceback

from byteps.common.own_threads import ANSWERS_STACKS, is_own

PREFIX = "byteps-stack-"
_CREDENTIALS = struct.Struct("3i")  # process, user, group
_ANSWER_LIMIT_S = 3.0


def user_at_other_end(connection: socket.socket) -> int:
    """Return the user of the process at the other end of a local socket, as the kernel knows it."""
    said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(said)[1])


def stacks() -> str:
    """Return where all threads of the program are, the main thread first."""
    frames = sys._current_frames()
    main = threading.main_thread()
    threads = [main, *(one for one in threading.enumerate() if one is not main)]
    parts = []
    for thread in threads:
        frame = frames.get(thread.ident or 0)
        if frame is None or is_own(thread):
            continue
        lines = "".join(traceback.format_stack(frame))
        parts.append(f"thread {thread.name}, the latest call last:\n{lines}")
    return "\n".join(parts)


class StackAnswers:
    """Answers until `end`. It never raises: a job goes on without it."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._process = 0

    def begin(self, rank: int, size: int) -> None:
        """Answer from now on, if the address is free, as this worker."""
        job = os.environ.get("BYTEPS_JOB_ID")
        who = f"worker {rank} of {size}{f' of job {job}' if job else ''}, process {os.getpid()}"
        try:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            # Before the rest: an exception of a signal handler may come at any step, and then `end`
            # ends what has begun.
            self._socket, self._process = listener, os.getpid()
            listener.bind(f"\0{PREFIX}{os.geteuid()}-{os.getpid()}")
            listener.listen()
            self._thread = threading.Thread(
                target=_answer_all, args=(listener, who), name=ANSWERS_STACKS, daemon=True
            )
            self._thread.start()
        except (OSError, RuntimeError):
            self.end()

    def end(self) -> None:
        """Answer no more, and free the address: `begin` may follow.

        It waits for an answer that is on its way.
        """
        listener, self._socket = self._socket, None
        thread, self._thread = self._thread, None
        if listener is None or os.getpid() != self._process:  # a forked child's is its parent's
            return
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)  # wakes the thread
        if thread is not None and thread.is_alive():
            thread.join(_ANSWER_LIMIT_S)
        # An exception has ended `begin`, perhaps, and its frame, which somebody may keep, has the
        # socket, too.
        listener.close()


def _answer_all(listener: socket.socket, who: str) -> None:
    with listener:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # the end, or no descriptor is left
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(_ANSWER_LIMIT_S)
                if user_at_other_end(connection) in (0, os.geteuid()):
                    connection.sendall(f"{who}\n{stacks()}".encode())
