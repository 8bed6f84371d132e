"""The input of `bps run` on its way to rank 0 on another host.

The launcher sends at most WINDOW_BYTES more than rank 0 has taken, and reads no more of its input
than it may send. So no byte is lost, however slowly rank 0 reads, and no queue grows. Signals and
the ends of processes go the same way to the agent: in the launcher no input stands before them, and
on the way at most these bytes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from byteps.cli.children import ProcessSpec
from byteps.cli.confirmations import confirmation
from byteps.cli.output import Output, may_read_input
from byteps.cli.supervisor import Supervisor

# A compromise. On a link of 1 MB/s a signal waits for 0.13 s at most behind this much; on a link
# that answers after 0.1 s the input comes at up to 1.3 MB/s.
WINDOW_BYTES = 1 << 17
# The agent says what rank 0 has taken whenever this much is new.
_CONFIRMED_BYTES = WINDOW_BYTES // 4
_READ_BYTES = 1 << 14


class InputForwarder:
    """Passes the launcher's input to the agent of rank 0."""

    def __init__(self, supervisor: Supervisor, specs: Sequence[ProcessSpec]) -> None:
        """Begin when the supervisor runs. REQUIRES: one of its specs has confirmations."""
        self._supervisor = supervisor
        self._place, confirmations = next(
            (place, spec.confirmations)
            for place, spec in enumerate(specs)
            if spec.confirmations is not None
        )
        self._confirmations = confirmations
        self._may_read = may_read_input()
        # A file can be read at any time, and epoll takes none; so can an input that is empty.
        self._is_always_ready = not self._may_read
        self._is_watched = False
        self._has_ended = False
        self._sent = 0
        supervisor.before_each_wait(self._listen)

    def _listen(self) -> None:
        """Read when the agent may get more, and only then."""
        while self._is_always_ready and self._room() > 0:
            self._forward()
        is_wanted = not self._is_always_ready and self._room() > 0
        if is_wanted and not self._is_watched:
            try:
                self._supervisor.watch(0, self._forward)
            except PermissionError:
                self._is_always_ready = True
                self._listen()
                return
        elif self._is_watched and not is_wanted:
            self._supervisor.unwatch(0)
        self._is_watched = is_wanted

    def _room(self) -> int:
        """Return how many bytes the agent may get now."""
        words = self._supervisor.words_of(self._place)
        if self._has_ended or words is None or words.error is not None or words.is_pending:
            return 0
        return WINDOW_BYTES - (self._sent - self._confirmations.taken)

    def _forward(self) -> None:
        """Read once and pass it on."""
        words = self._supervisor.words_of(self._place)
        room = self._room()
        if words is None or room <= 0:  # since the event came
            return
        try:
            data = os.read(0, min(room, _READ_BYTES)) if self._may_read else b""
        except OSError as error:
            if isinstance(error, BlockingIOError) and not self._is_always_ready:
                return  # others read the same input, and one of them was faster
            if not os.isatty(0):
                self._has_ended = True
                self._supervisor.stop(
                    1,
                    f"bps cannot read its input for rank 0: {error.strerror}; give it another one, "
                    "or none with < /dev/null; ending the job",
                )
                return
            data = b""  # a terminal that is gone has no more input
        words.put(json.dumps({"input": len(data)}).encode() + b"\n" + data)
        self._sent += len(data)
        self._has_ended = not data


class InputReceiver:
    """Passes to rank 0 what the launcher sends, and tells the launcher what rank 0 has taken."""

    def __init__(self, supervisor: Supervisor, input_end: int, token: str) -> None:
        """Write to `input_end`, a pipe that rank 0 reads."""
        self._supervisor = supervisor
        self._token = token
        self._output = Output(input_end)
        self._received = 0
        self._said = 0
        supervisor.outputs.add(self._output)
        supervisor.before_each_wait(self._say_what_was_taken)

    def put(self, data: bytes) -> None:
        """Pass on bytes that have come."""
        self._received += len(data)
        self._output.put(data)

    def end(self) -> None:
        """Let rank 0 see the end of the input behind all that has come."""
        self._supervisor.outputs.close(self._output)

    def _say_what_was_taken(self) -> None:
        taken = self._received - self._output.pending_bytes
        # Whoever reads no more takes nothing: then the launcher's input waits, as on one machine.
        if self._output.error is None and taken - self._said >= _CONFIRMED_BYTES:
            self._supervisor.outputs.err.put(confirmation(self._token, taken))
            self._said = taken
