"""What the standard error of a worker, or of an agent, says about why it ends."""

from __future__ import annotations

import re
from collections.abc import Callable

# torch puts the rank in front of the lines of an exception, once or twice.
_RANK = re.compile(rb"^(?:\[rank\d+\]: )+")
# The last line of a traceback: "package.module.SomeError: text", or without a text.
_EXCEPTION = re.compile(
    rb"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|Quit|Warning)\b(?:: |:?$)"
)
# What an exception of C++ says that nobody has caught.
_WHAT = re.compile(rb"^  what\(\):  (.+)")
# What a program of C or C++ has heard: as what(), or in its last line, behind the program's name.
_HEARD_IN_CXX = re.compile(rb"^worker \d+ [^:]*was lost: ")
_HEARD_LAST = re.compile(rb"(?:^|: )worker \d+ [^:]*(?:was lost: |has left the job; )")
# A line of the library's log is no word of the program.
_LOG = re.compile(rb"^\[[^]]* [TDIWEF] \w[^]]*\] ")
# The lost process has passed on why it ends, and so it is about to end.
_SAID_BY_THE_LOST = re.compile(
    rb"\bwas lost: (?:it ended with sys[.]exit|an exception ended it|a C\+\+ exception ended)"
)
_OWN = b"byteps.common.errors."
# Errors of the job itself that a worker has heard of, also through torch's C++. The others it has
# made. A worker that has waited for others in vain has heard of them, and one that cannot reach the
# scheduler is what the others wait for.
_HEARD = re.compile(
    rb"^(?:byteps\.common\.errors\.|RuntimeError: .*: )"
    rb"(?:(?:PeerLost|Evicted|Unavailable|Shutdown)Error\b(?!: cannot reach the scheduler)"
    rb"|\w+: worker \d+ [^:]*was lost: |DeadlineError: the job did not start: )"
)
# What a server and the scheduler say at their end.
_SERVICE = re.compile(rb"^bps-(?:server|scheduler): (.*)")
_LOSS_ENDS_JOB = re.compile(rb"^(?:\[[^]]* [EF] \w[^]]*\] the job is over|bps-\w+): .* was lost: ")
# An error of the job inside a program of TensorFlow or JAX, which raises an exception of its own.
# TensorFlow's says it some lines after its name.
_INSIDE = re.compile(rb"byteps error \d+: .*")
_HEARD_INSIDE = re.compile(rb"byteps error (?:4|5|7|10): ")  # the codes of these four
# The last thing that an agent says before it ends its part of the job.
_END = re.compile(rb"^\[bps on [^\]]*\] (.*?)(?:; ending the job|; none left on this host)$")
_END_OF_ANOTHER = re.compile(
    rb"\((?:(?:PeerLost|Evicted|Unavailable|Shutdown)Error\b(?!: cannot reach the scheduler)"
    rb"|DeadlineError: the job did not start: "
    rb"|(?:its last line: (?:.*: )?)?worker \d+ [^:]*(?:was lost: |has left the job; ))"
)
_LENGTH_MAX = 200
_LINE_BYTES_MAX = 1 << 16
_SAID_LINES_MAX = 1000


class LastError:
    """The last exception that a process has printed."""

    def __init__(self) -> None:
        self._line = b""
        self._inside = b""
        self._last = b""

    def note(self, line: bytes) -> None:
        """Look at a line of standard error."""
        line = _RANK.sub(b"", line)
        if line.strip() and not _LOG.match(line):
            self._last = line
        if _EXCEPTION.match(line):
            self._line, self._inside = line, b""
        elif what := _WHAT.match(line):
            self._line, self._inside = what[1], b""
        elif self._line and (inside := _INSIDE.search(line)):
            self._inside = inside[0]

    @property
    def text(self) -> str:
        """The exception in one line; empty if there was none."""
        line = self._line.removeprefix(_OWN)
        if self._inside:
            line = line.partition(b":")[0].rpartition(b".")[2] + b": " + self._inside
        return _short(line)

    @property
    def last_line(self) -> str:
        """The last line, where a program that is none of Python says why it ends, if it does."""
        return _short(self._last)

    @property
    def is_heard(self) -> bool:
        """Whether it tells of the end of another process."""
        inside = self._inside or self._line
        heard = _HEARD.match(self._line) or _HEARD_IN_CXX.match(self._line)
        if not self._line:
            heard = _HEARD_LAST.search(self._last)
        return bool(heard or _HEARD_INSIDE.search(inside))

    @property
    def awaits_an_end(self) -> bool:
        """Whether it tells of another process that has said why it ends."""
        said = self._inside or self._line or self._last
        return _SAID_BY_THE_LOST.search(said) is not None


def _short(line: bytes) -> str:
    text = line.decode(errors="replace").strip()
    return text if len(text) <= _LENGTH_MAX else f"{text[:_LENGTH_MAX]}..."


class ErrorLines:
    """Shows a `LastError` the lines of bytes that are passed on as they are."""

    def __init__(self, last_error: LastError) -> None:
        self._last_error = last_error
        self._rest = b""

    def pass_on(self, data: bytes) -> bytes:
        """Look at what was read, b"" at the end, and return it."""
        *lines, rest = (self._rest + data).split(b"\n")
        for line in lines if data else [*lines, rest]:
            self._last_error.note(line)
        self._rest = rest[-_LINE_BYTES_MAX:]
        return data


class ServiceError(LastError):
    """What a server or the scheduler says at its end."""

    def note(self, line: bytes) -> None:
        """Look at a line of standard error."""
        found = _SERVICE.match(line)
        if found is not None:
            self._line = found[1]


def is_of_a_loss(line: bytes) -> bool:
    """Return whether a service says that the job ends because a process was lost.

    The launcher has seen the end of this process, and tells it with its reason.
    """
    return _LOSS_ENDS_JOB.match(line) is not None


class SaidOnce:
    """Two connections lead to a host with workers and servers; they fail with the same words.

    Lines of processes begin with another name in brackets and do not count.
    """

    def __init__(self) -> None:
        self._first: dict[bytes, int] = {}

    def by(self, place: int) -> Callable[[bytes], bool]:
        """Return what says of a line from the agent at a place whether another one has said it."""

        def is_known(line: bytes) -> bool:
            if line.startswith(b"[") and not line.startswith(b"[bps on "):
                return False
            if len(self._first) > _SAID_LINES_MAX:
                return False
            return self._first.setdefault(line, place) != place

        return is_known


class LastWord(LastError):
    """Why an agent ends its part of the job: which of its processes ended, and how."""

    def note(self, line: bytes) -> None:
        """Look at a line of standard error."""
        found = _END.match(line.rstrip())
        if found is not None:
            self._line = found[1]

    @property
    def text(self) -> str:
        """What it has said; empty if that was nothing."""
        return self._line.decode(errors="replace")

    @property
    def is_heard(self) -> bool:
        """Whether that process has heard of the end of another one."""
        return _END_OF_ANOTHER.search(self._line) is not None
