"""Starts the processes of a job, watches them, and ends all of them in bounded time.

One thread, one selector: process descriptors, output pipes and signals are events; every wait has
a deadline. The first failure decides what the user is told and the exit code.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from byteps.cli import guard
from byteps.cli.output import LineForwarder, OutputClosedError, prefix, use_colour, write_all

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# How long the first failure waits for a cause that shows later (Supervisor._name_cause).
_CAUSE_WINDOW_S = 0.5
_DRAIN_LIMIT_S = 10.0
_AFTER_KILL_LIMIT_S = 5.0
_LAST_OUTPUT_LIMIT_S = 1.0


@dataclass(frozen=True)
class ProcessSpec:
    """A process to start. The job is done when all workers are."""

    label: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    is_worker: bool = True


@dataclass
class _Child:
    spec: ProcessSpec
    process: subprocess.Popen[bytes]
    descriptor: int
    status: int | None = None  # as in subprocess: exit code, or minus the signal


@dataclass
class Outcome:
    """How a job ended."""

    exit_code: int = 0
    finished: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def describe_status(label: str, status: int) -> str:
    """Return a sentence about how a process ended."""
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"{label} was killed by signal {-status} ({signal.Signals(-status).name})"
        return f"{label} was killed by signal {-status}"
    return f"{label} ended with exit code {status}"


class Supervisor:
    """Runs one job. Make one, call `run` once, from the main thread."""

    def __init__(
        self,
        specs: Sequence[ProcessSpec],
        grace_s: float,
        prefixed: bool,
        drain_s: float = _DRAIN_LIMIT_S,
    ) -> None:
        """Take the processes to start.

        `grace_s` is the time between asking a process to end and killing it, `drain_s` what
        servers may take to end after the last worker. `prefixed`: output goes through the
        launcher and carries names; otherwise the processes have the launcher's own.
        """
        self._specs = specs
        self._drain_s = drain_s
        self._grace_s = grace_s
        self._prefixed = prefixed
        self._marker = guard.new_marker()
        self._selector = selectors.DefaultSelector()
        self._children: list[_Child] = []
        self._forwarders: list[LineForwarder] = []
        self._outcome = Outcome()
        self._suspects: list[_Child] = []
        self._name_cause_at: float | None = None
        self._ending = False
        self._ending_by_signal = False
        self._kill_at: float | None = None
        self._drain_until: float | None = None
        self._give_up_at: float | None = None

    def run(self) -> Outcome:
        """Start everything, wait for the end, leave nothing behind."""
        watchdog = guard.Watchdog(self._marker)
        with self._signals():
            try:
                self._start_all()
                self._loop()
            except OutputClosedError:
                self._stop_output()
                self._fail("the reader of this output is gone", 128 + signal.SIGPIPE)
                self._loop()
            finally:
                self._clean_up()
                watchdog.dismiss()
        return self._outcome

    # Starting.

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Make signals events of the selector while the job runs."""
        receiver, sender = socket.socketpair()
        receiver.setblocking(False)
        sender.setblocking(False)
        self._selector.register(receiver, selectors.EVENT_READ, self._on_signals)
        before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        handlers = {}
        for number in FORWARDED:
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup stays in force
                handlers[number] = signal.signal(number, lambda *_: None)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self._selector.unregister(receiver)
            receiver.close()
            sender.close()

    def _start_all(self) -> None:
        before_exec = guard.die_with_launcher()
        for index, spec in enumerate(self._specs):
            pipe = subprocess.PIPE if self._prefixed else None
            try:
                process = subprocess.Popen(
                    list(spec.arguments),
                    env=guard.marked_environment(dict(spec.environment), self._marker),
                    stdin=subprocess.DEVNULL if self._prefixed else None,
                    stdout=pipe,
                    stderr=pipe,
                    start_new_session=True,
                    preexec_fn=before_exec,
                )
            except OSError as error:
                code = 127 if isinstance(error, FileNotFoundError) else 126
                reason = f"{spec.label} cannot be started: {spec.arguments[0]}: {error.strerror}"
                self._fail(reason, code)
                return
            self._watch(_Child(spec, process, os.pidfd_open(process.pid)), index)

    def _watch(self, child: _Child, index: int) -> None:
        self._children.append(child)
        self._selector.register(child.descriptor, selectors.EVENT_READ, child)
        for stream, target in ((child.process.stdout, 1), (child.process.stderr, 2)):
            if stream is not None:
                coloured = use_colour(target, os.environ)
                line_prefix = prefix(child.spec.label, index, coloured)
                forwarder = LineForwarder(stream.fileno(), target, line_prefix)
                self._forwarders.append(forwarder)
                self._selector.register(forwarder.source, selectors.EVENT_READ, forwarder)

    # Running.

    def _loop(self) -> None:
        """Handle events until every process has ended."""
        while any(child.status is None for child in self._children):
            self._handle_deadlines()
            if self._give_up_at is not None and time.monotonic() >= self._give_up_at:
                return
            self._handle_events(self._selector.select(self._time_left()))
        if self._name_cause_at is not None:
            self._name_cause()

    def _handle_events(self, events: list[tuple[selectors.SelectorKey, int]]) -> None:
        ended = []
        for key, _ in events:
            if isinstance(key.data, _Child):
                ended.append(key.data)
            elif isinstance(key.data, LineForwarder):
                self._forward(key.data)
            else:
                key.data(key.fileobj)
        for child in ended:
            self._read_status(child)
        for child in ended:
            self._on_ended(child)

    def _forward(self, forwarder: LineForwarder) -> None:
        if not forwarder.forward():
            self._selector.unregister(forwarder.source)
            self._forwarders.remove(forwarder)

    def _read_status(self, child: _Child) -> None:
        # WNOWAIT leaves the dead process in the table: its id still names its process group.
        info = os.waitid(os.P_PIDFD, child.descriptor, os.WEXITED | os.WNOWAIT)
        assert info is not None
        child.status = info.si_status if info.si_code == os.CLD_EXITED else -info.si_status
        self._selector.unregister(child.descriptor)
        os.close(child.descriptor)

    def _on_ended(self, child: _Child) -> None:
        label, status = child.spec.label, child.status or 0
        if status == 0:
            self._outcome.finished.append(label)
            if not self._ending and self._workers_are_done():
                self._drain_until = time.monotonic() + self._drain_s
        elif not self._ending:
            self._suspects.append(child)
            if status < 0:
                self._name_cause()
            elif self._name_cause_at is None:
                self._name_cause_at = time.monotonic() + _CAUSE_WINDOW_S
        if self._ending_by_signal and self._workers_are_done():
            self._signal_groups(signal.SIGTERM, only_workers=False)

    def _name_cause(self) -> None:
        """End the job and say why: for a kill before all, else for a worker, else for the first.

        A process that is killed closes its connections before it counts as ended, so others may
        fail, and end, before it.
        """
        self._name_cause_at = None
        cause = min(
            self._suspects, key=lambda child: ((child.status or 0) > 0, not child.spec.is_worker)
        )
        status = cause.status or 0
        self._outcome.failed.append(cause.spec.label)
        self._fail(
            describe_status(cause.spec.label, status), status if status > 0 else 128 - status
        )

    def _workers_are_done(self) -> bool:
        workers = [child for child in self._children if child.spec.is_worker]
        return all(child.status is not None for child in workers)

    # Ending.

    def _fail(self, reason: str, exit_code: int) -> None:
        """Note the reason and end everything, politely first."""
        if self._outcome.exit_code == 0:
            self._outcome.exit_code = exit_code
        self._say(f"{reason}; ending the job")
        self._end(signal.SIGTERM, only_workers=False)

    def _end(self, number: int, only_workers: bool) -> None:
        self._ending = True
        self._name_cause_at = None
        self._drain_until = None
        self._signal_groups(number, only_workers)
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._grace_s

    def _on_signals(self, receiver: socket.socket) -> None:
        for number in receiver.recv(64):
            if number not in FORWARDED:
                continue
            if self._ending_by_signal:  # asked twice: no more patience
                self._kill_at = time.monotonic()
                continue
            self._ending_by_signal = True
            self._outcome.exit_code = self._outcome.exit_code or 128 + number
            self._say(f"got {signal.Signals(number).name}; ending the job")
            self._end(number, only_workers=True)
            if self._workers_are_done():
                self._signal_groups(signal.SIGTERM, only_workers=False)

    def _handle_deadlines(self) -> None:
        now = time.monotonic()
        if self._name_cause_at is not None and now >= self._name_cause_at:
            self._name_cause()
        if self._drain_until is not None and now >= self._drain_until:
            names = ", ".join(c.spec.label for c in self._children if c.status is None)
            self._say(f"the workers are done, but not {names}; ending the job")
            self._end(signal.SIGTERM, only_workers=False)
        if self._kill_at is not None and now >= self._kill_at and self._give_up_at is None:
            self._signal_groups(signal.SIGKILL, only_workers=False)
            self._give_up_at = now + _AFTER_KILL_LIMIT_S

    def _time_left(self) -> float | None:
        """Return the time to the next deadline; None when only events count."""
        candidates = [self._name_cause_at, self._drain_until, self._give_up_at or self._kill_at]
        times = [moment for moment in candidates if moment is not None]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _signal_groups(self, number: int, only_workers: bool) -> None:
        for child in self._children:
            if child.spec.is_worker or not only_workers:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.process.pid, number)

    def _clean_up(self) -> None:
        """Kill what is left of the job, write the last lines, free the process table."""
        self._signal_groups(signal.SIGKILL, only_workers=False)
        guard.kill_marked(self._marker)
        deadline = time.monotonic() + _LAST_OUTPUT_LIMIT_S
        try:
            while self._forwarders and time.monotonic() < deadline:
                for key, _ in self._selector.select(deadline - time.monotonic()):
                    if isinstance(key.data, LineForwarder):
                        self._forward(key.data)
                    elif isinstance(key.fileobj, socket.socket):
                        key.fileobj.recv(64)  # a signal; the job is over anyway
            for forwarder in self._forwarders:
                forwarder.flush()
        except OutputClosedError:
            self._stop_output()
        for child in self._children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(_AFTER_KILL_LIMIT_S)

    def _stop_output(self) -> None:
        for forwarder in self._forwarders:
            self._selector.unregister(forwarder.source)
        self._forwarders.clear()

    def _say(self, text: str) -> None:
        sys.stderr.flush()
        with contextlib.suppress(OutputClosedError, OSError):
            write_all(2, f"[bps] {text}\n".encode())
