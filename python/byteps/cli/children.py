"""The processes that the launcher has started, and how the scheduler hears of their ends."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from byteps.cli.confirmations import Confirmations
from byteps.cli.last_error import (
    ErrorLines,
    LastError,
    LastWord,
    SaidOnce,
    ServiceError,
    is_of_a_loss,
)
from byteps.cli.lost_processes import describe_status
from byteps.cli.output import Output, Outputs, prefix, use_colour

# Names the descriptor on which the scheduler reads a line for every process of the job whose end
# the launcher has seen: "exited PID", of a worker "exited PID worker RANK".
NOTICES_VARIABLE = "BYTEPS_EXIT_NOTICES"
_TALKATIVE = ("trace", "debug", "info")
_SSH_FAILED = 255  # the exit code of ssh itself
# ssh gives up to connect after 15 s. If it has lived longer, it was connected.
_SSH_CONNECTS_S = 20.0
_FIRST_LINE_BYTES = 256  # of a script; a program for another kind of machine has zeros there


@dataclass(frozen=True)
class ProcessSpec:
    """A process to start. The job is done when all workers are."""

    label: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    role: str = "worker"  # or server, scheduler
    rank: int | None = None  # of a worker
    # Of an agent, which runs a part of the job on another host: its first line of input. What comes
    # then stands in agent.py.
    task: str | None = None
    ranks: Sequence[int] = ()  # of the workers that an agent runs
    # Of the agent that runs rank 0: its standard error says how much of the input rank 0 has taken.
    confirmations: Confirmations | None = None
    cores: Sequence[int] = ()  # that it runs on; empty: any
    part_servers: int = 0  # that an agent runs
    # Of a worker with outputs of its own: its standard error passes the launcher, as it is.
    reads_errors: bool = False
    # Of an agent: what ssh and the agents of this host have said, of which each line counts once.
    said: SaidOnce | None = None

    def count(self, role: str) -> int:
        """Return how many processes of a role it is, or runs as an agent."""
        if self.task is not None and role != "scheduler":
            return len(self.ranks) if role == "worker" else self.part_servers
        return int(self.role == role)

    @property
    def is_worker(self) -> bool:
        """Return whether the job is there for it."""
        return self.role == "worker"


@dataclass
class Child:
    """A process that was started; it stays in the process table until the job is over."""

    spec: ProcessSpec
    place: int  # among the specs
    process: subprocess.Popen[bytes]
    descriptor: int
    began: float
    status: int | None = None  # as in subprocess: exit code, or minus the signal
    last_error: LastError = field(default_factory=LastError)
    words: Output | None = None  # to an agent
    _was_asked_to_kill: bool = False
    _lived_s: float = 0.0  # set at its end

    @property
    def is_stopped(self) -> bool:
        """Return whether it lives but a signal has stopped it."""
        if self.status is not None:
            return False
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_bytes()
            return stat.rpartition(b")")[2].split()[0] in (b"T", b"t")
        except (OSError, IndexError):
            return False

    @property
    def how_it_ended(self) -> str:
        """Return a sentence about its end. REQUIRES: it has ended."""
        if self.spec.task is not None and self.status == _SSH_FAILED:
            host = self.spec.label.rpartition(" ")[2]
            if self._lived_s > _SSH_CONNECTS_S:
                return (
                    f"{self.spec.label}: ssh lost its connection: {host} has stopped or started "
                    "again, the network is cut, or somebody has ended ssh or sshd"
                )
            return (
                f"{self.spec.label}: ssh could not connect, or lost its connection (it must work "
                f"without a question, as in: ssh -o BatchMode=yes {host} true)"
            )
        return describe_status(self.spec.label, self.status or 0)

    @property
    def how_and_why(self) -> str:
        """Return the same with the reason, if it has said one. An agent's is all that counts."""
        said = self.last_error.text
        if self.spec.task is not None and said:
            return said
        if said == "bdb.BdbQuit" and self.spec.rank:
            said += ": only rank 0 has input, so breakpoint() works there"
        if not said and (self.status or 0) > 0 and self.last_error.last_line:
            said = f"its last line: {self.last_error.last_line}"
        return f"{self.how_it_ended} ({said})" if said else self.how_it_ended

    def forward_to(self, outputs: Outputs, has_input: bool, copy: Output | None) -> None:
        """Let its pipes lead to the launcher's outputs, and all its bytes to `copy`, too."""
        out, err = self.process.stdout, self.process.stderr
        confirmations = self.spec.confirmations
        taken_out = confirmations.take_out if confirmations is not None else None
        if out is None and err is not None:  # raw output; the pipe is there for what is in it
            if taken_out is None:
                taken_out = ErrorLines(self.last_error).pass_on
            outputs.forward_bytes(err.fileno(), outputs.err, taken_out)
            return
        note = self.last_error.note
        hides: Callable[[bytes], bool] | None = None
        if self.spec.said is not None:
            hides = self.spec.said.by(self.place)
        elif not self.spec.is_worker and not is_talkative():
            hides = is_of_a_loss
        for stream, target, watch, filtered in (
            (out, outputs.out, None, None),
            (err, outputs.err, note, taken_out),
        ):
            if stream is not None:
                coloured = use_colour(target.descriptor, os.environ)
                # An agent names its processes itself.
                named = self.spec.task is None
                line_prefix = prefix(self.spec.label, self.place, coloured) if named else b""
                outputs.forward(
                    stream.fileno(), target, line_prefix, watch, copy, has_input, filtered, hides
                )

    @property
    def outputs(self) -> list[int]:
        """Return the pipes that it writes to."""
        pipes = (self.process.stdout, self.process.stderr)
        return [pipe.fileno() for pipe in pipes if pipe is not None]

    def signal_group(self, number: int) -> None:
        """Send a signal to the process and what it has started in its process group.

        An agent passes it to its processes. If it does not end them, it is killed itself.
        """
        if self.words is not None and not self._was_asked_to_kill:
            self._was_asked_to_kill = number == signal.SIGKILL
            self.tell({"signal": number})
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def signal_main(self, number: int) -> None:
        """Send a signal to the process alone."""
        if self.words is not None:
            self.tell({"signal": number})
        elif self.status is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self.descriptor, number)

    def tell(self, word: Mapping[str, object]) -> None:
        """Send a line to an agent."""
        if self.words is not None:
            self.words.put(json.dumps(word).encode() + b"\n")

    def read_status(self) -> None:
        """Learn how it ended. REQUIRES: the descriptor is readable."""
        # WNOWAIT leaves the dead process in the table: its id still names its process group.
        info = os.waitid(os.P_PIDFD, self.descriptor, os.WEXITED | os.WNOWAIT)
        assert info is not None
        self.status = info.si_status if info.si_code == os.CLD_EXITED else -info.si_status
        self._lived_s = time.monotonic() - self.began
        os.close(self.descriptor)


def is_talkative() -> bool:
    """Return whether the user wants to read what services say of the end of the job."""
    return os.environ.get("BYTEPS_LOG_LEVEL", "").strip().lower() in _TALKATIVE


def why_not_started(spec: ProcessSpec, error: OSError) -> str:
    """Return what to tell the user, with the word that is missing before a Python program."""
    program = spec.arguments[0]
    text = f"{spec.label} cannot be started: {program}: {error.strerror}"
    first, *more = program.split()[:2] or [""]
    if program.endswith(".py") and Path(program).is_file():
        text += f"; this is a Python program; start it with: python {program}"
    elif "/" not in program and Path(program).is_file() and os.access(program, os.X_OK):
        text += f"; a program of this folder is started with: ./{program}"
    elif more and shutil.which(first) is not None:
        text += f"; the quotes make one word of it; write it without them: {program}"
    return text


def start_child(
    spec: ProcessSpec,
    place: int,
    environment: Mapping[str, str],
    before_exec: Callable[[], None],
    piped: bool,
    notices: ExitNotices,
    stdin: int | None,
) -> Child:
    """Start a process; raises OSError. Its input is `stdin`, or the launcher's if that is None."""
    pipe = subprocess.PIPE if piped else None
    reads = spec.confirmations is not None or spec.reads_errors
    environment = dict(environment)
    inherited = []
    if spec.role == "scheduler":
        inherited.append(notices.open())
        environment[NOTICES_VARIABLE] = str(inherited[0])

    def before() -> None:
        before_exec()
        if spec.cores:
            with contextlib.suppress(OSError, ValueError):  # the system may not allow it
                os.sched_setaffinity(0, spec.cores)

    def start(words: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            words,
            env=environment,
            stdin=stdin if spec.task is None else subprocess.PIPE,
            stdout=pipe,
            stderr=subprocess.PIPE if reads else pipe,
            start_new_session=True,
            preexec_fn=before,
            pass_fds=inherited,
        )

    try:
        try:
            process = start(list(spec.arguments))
        except OSError as error:
            script = _script(spec.arguments[0], environment)
            if error.errno != errno.ENOEXEC or script is None:
                raise
            process = start(["/bin/sh", script, *spec.arguments[1:]])
    finally:
        for descriptor in inherited:
            os.close(descriptor)
    child = Child(spec, place, process, os.pidfd_open(process.pid), time.monotonic())
    if not spec.is_worker:
        child.last_error = ServiceError()
    if spec.task is not None and process.stdin is not None:
        child.last_error = LastWord()
        child.words = Output(process.stdin.fileno())
        child.words.put(spec.task.encode() + b"\n")
    return child


def _script(program: str, environment: Mapping[str, str]) -> str | None:
    """Return the path of a program that is text, for the shell, as execvp and every shell do.

    The kernel starts no script that does not name its interpreter.
    """
    path = shutil.which(program, path=environment.get("PATH"))
    if path is None:
        return None
    with contextlib.suppress(OSError), Path(path).open("rb") as file:
        if b"\0" not in file.readline(_FIRST_LINE_BYTES):
            return path if "/" in path else f"./{path}"
    return None


class ExitNotices:
    """Tells the scheduler which processes of the job have ended. A new one hears of all again."""

    def __init__(self) -> None:
        self._ended: list[str] = []
        self._write_end: int | None = None

    def open(self) -> int:
        """Return the descriptor for a new scheduler to read from; the caller closes it."""
        self.close()
        read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        self._write(self._ended)
        return read_end

    def tell(self, process: int, rank: int | None = None) -> None:
        """Say that a process has ended; `rank` if it was a worker, which nobody starts again."""
        line = f"exited {process}\n" if rank is None else f"exited {process} worker {rank}\n"
        self._ended.append(line)
        self._write([line])

    def close(self) -> None:
        """Say no more."""
        if self._write_end is not None:
            os.close(self._write_end)
            self._write_end = None

    def _write(self, lines: Sequence[str]) -> None:
        if self._write_end is None:
            return
        # A scheduler that is gone or reads nothing: it finds out by the connections.
        with contextlib.suppress(BrokenPipeError, BlockingIOError):
            os.write(self._write_end, "".join(lines).encode())
