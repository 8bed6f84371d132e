"""Starts the processes of a job, watches them, and ends all of them in bounded time.

One thread, one selector: process descriptors, output pipes and signals are events; every wait has
a deadline. lost_processes.py says what a loss means; the first one that ends the job decides what
the user is told last and the exit code.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

from byteps.cli import guard
from byteps.cli.children import (
    Child,
    ExitNotices,
    ProcessSpec,
    is_talkative,
    start_child,
    why_not_started,
)
from byteps.cli.first_cause import FirstCause
from byteps.cli.joining import Joining
from byteps.cli.lost_processes import Action, Loss, LossJudge, LossPolicy
from byteps.cli.orphans import Orphans
from byteps.cli.outcome import Outcome
from byteps.cli.output import Output, Outputs, may_read_input
from byteps.cli.output_files import OutputFiles
from byteps.cli.signals import signals_as_events

_DRAIN_LIMIT_S = 10.0
# The same when the scheduler has ended in order: it has told all servers that it knew.
_TOLD_LIMIT_S = 0.5
_AFTER_KILL_LIMIT_S = 5.0
_LAST_OUTPUT_LIMIT_S = 1.0
# The longest wait for events: the selector takes no more than 24 days.
_WAIT_LIMIT_S = 3600.0
_NO_OUTPUT_EXIT_CODE = 128 + signal.SIGPIPE  # as of a program without a launcher


class Supervisor:
    """Runs one job. Make one, call `run` once, from the main thread."""

    def __init__(
        self,
        specs: Sequence[ProcessSpec],
        grace_s: float,
        prefixed: bool,
        policy: LossPolicy | None = None,
        drain_s: float = _DRAIN_LIMIT_S,
        files: OutputFiles | None = None,
        is_part: bool = False,
        stdin: int | None = None,
        name: str = "bps",
        relays: bool = False,
    ) -> None:
        """Take the processes to start.

        `grace_s` is the time between asking a process to end and killing it, `drain_s` what
        servers may take to end after the last worker. `prefixed`: output goes through the
        launcher and carries names; otherwise the processes have the launcher's own. `files` get a
        copy of the output that goes through the launcher. The worker of rank 0 reads `stdin`, or
        the launcher's input if that is None. Without a `policy` the job survives no loss. If this
        `is_part` of a job that has workers elsewhere, services end by themselves, however long
        that takes. `name` stands before what the launcher says itself. `relays`: the output leads
        to the terminal of another launcher.
        """
        self._specs = specs
        self._drain_s = drain_s
        self._grace_s = grace_s
        self._prefixed = prefixed
        self._files = files
        self._is_part = is_part
        self._stdin = stdin
        self._name = name
        self._on_started: list[Callable[[], None]] = []
        self._before_wait: list[Callable[[], None]] = []
        self._marker = guard.new_marker()
        self._selector = selectors.DefaultSelector()
        self._outputs = Outputs(self._selector, relays=relays)
        self._policy = policy or LossPolicy()
        self._judge_of_losses = LossJudge(self._policy)
        self._notices = ExitNotices()
        self._joining = Joining(self._marker)
        self._orphans = Orphans()
        self._watchdog: int | None = None
        self._before_exec = guard.die_with_launcher()
        self._children: list[Child] = []
        self._outcome = Outcome()
        self._first_cause = FirstCause()
        self._restarts: list[tuple[float, int]] = []  # when, and which of the specs
        self._ending = False
        self._ending_by_signal = False
        self._kill_at: float | None = None
        self._drain_until: float | None = None
        self._give_up_at: float | None = None
        self._is_over = False
        self._is_stopped = False  # from outside
        self._reader_has_time = True

    def run(self) -> Outcome:
        """Start everything, wait for the end, leave nothing behind."""
        self._orphans.begin()
        watchdog = guard.Watchdog(self._marker)
        self._watchdog = watchdog.process
        with signals_as_events(self._selector, self._on_signals):
            try:
                self.watch(self._joining.descriptor, self._joining.listen)
                self._start_all()
                for call in self._on_started:
                    call()
                self._loop()
                alone = self._joining.why_alone(self._specs) if self._outcome.is_well else ""
                for text in (alone, self._outcome.losses(self._specs)):
                    if text:
                        self.say(text)
            finally:
                self._notices.close()
                self.unwatch(self._joining.descriptor)
                self._joining.close()
                self._clean_up()
                watchdog.dismiss()
        return self._outcome

    @property
    def specs(self) -> Sequence[ProcessSpec]:
        """Return the processes of the job."""
        return self._specs

    # What others tell. Call these before `run`, or in what `watch` calls.

    def watch(self, descriptor: int, on_readable: Callable[[], None]) -> None:
        """Call a function whenever a descriptor is readable."""
        self._selector.register(descriptor, selectors.EVENT_READ, on_readable)

    def unwatch(self, descriptor: int) -> None:
        """Look at a descriptor no more."""
        self._selector.unregister(descriptor)

    def on_started(self, call: Callable[[], None]) -> None:
        """Call a function once when all processes have been started."""
        self._on_started.append(call)

    def before_each_wait(self, call: Callable[[], None]) -> None:
        """Call a function before each wait for events."""
        self._before_wait.append(call)

    @property
    def outputs(self) -> Outputs:
        """Return what the launcher writes to; more outputs may be added."""
        return self._outputs

    def words_of(self, place: int) -> Output | None:
        """Return what leads to the agent at a place among the specs, as long as it lives."""
        living = (c for c in self._children if c.place == place and c.status is None)
        return next((child.words for child in living if not self._is_over), None)

    def tell_of_exits(self, ranks: Sequence[int]) -> None:
        """Tell the scheduler, if it is here, that workers on another host have ended in order."""
        for rank in ranks:
            self._notices.tell(0, rank)

    def pass_signal(self, number: int) -> None:
        """React to a signal as if this process had got it."""
        if number in guard.PASSED_SIGNALS:
            for child in self._children:
                if child.spec.is_worker:
                    child.signal_main(number)
        elif number in guard.ENDING_SIGNALS:
            self._end_by_signal(number)
        elif number == signal.SIGKILL:
            self._end_by_signal(number)
            self._kill_at = time.monotonic()

    def stop(self, exit_code: int, reason: str = "") -> None:
        """End the job for a cause that lies outside of its processes here."""
        self._outcome.exit_code = self._outcome.exit_code or exit_code
        self._is_stopped = True
        if reason:
            self.say(reason)
        if not self._ending:
            self._end(signal.SIGTERM, only_workers=False)

    # Starting.

    def _start_all(self) -> None:
        for place in range(len(self._specs)):
            if self._is_stopped or not self._start(place):
                return

    def _start(self, place: int) -> bool:
        spec = self._specs[place]
        environment = guard.marked_environment(dict(spec.environment), self._marker)
        try:
            child = start_child(
                spec,
                place,
                environment,
                self._before_exec,
                self._prefixed,
                self._notices,
                self._stdin if self._has_input(spec) else subprocess.DEVNULL,
            )
        except OSError as error:
            code = 127 if isinstance(error, FileNotFoundError) else 126
            self._fail(f"{why_not_started(spec, error)}; ending the job", code)
            return False
        self._watch(child)
        return True

    def _has_input(self, spec: ProcessSpec) -> bool:
        if spec.rank is None:  # a worker of a job that others have started, too
            return spec.is_worker and not self._prefixed
        return spec.rank == 0 and (self._stdin is not None or may_read_input())

    def _watch(self, child: Child) -> None:
        self._children.append(child)
        if child.words is not None:
            self._outputs.add(child.words)
        self._selector.register(child.descriptor, selectors.EVENT_READ, child)
        copy = self._files.of(child.spec.label) if self._files is not None else None
        child.forward_to(self._outputs, self._has_input(child.spec), copy)

    # Running.

    def _loop(self) -> None:
        """Handle events until every process has ended."""
        while any(child.status is None for child in self._children):
            self._handle_deadlines()
            self._look_at_output()
            if self._give_up_at is not None and time.monotonic() >= self._give_up_at:
                return
            self._listen()
            self._handle_events(self._selector.select(self._time_left()))
        if self._first_cause:
            self._judge(killed_only=False)

    def _listen(self, to_all: bool = False) -> None:
        for call in self._before_wait:
            call()
        self._outputs.listen(to_all)

    def _handle_events(self, events: list[tuple[selectors.SelectorKey, int]]) -> None:
        ended = []
        for key, _ in events:
            if isinstance(key.data, Child):
                ended.append(key.data)
            else:
                key.data()
        for child in ended:
            self._selector.unregister(child.descriptor)
            child.read_status()
        for child in ended:
            self._on_ended(child)
        if ended:
            self._judge(killed_only=True)
            self._look_for_the_end()

    def _look_at_output(self) -> None:
        self._outputs.show(time.monotonic())
        for lost in self._files.lost() if self._files is not None else ():
            self.say(f"bps cannot write to {lost}; the job goes on, and this file ends here")
        error = self._outputs.error
        # Processes with outputs of their own lose only notices.
        is_used = self._prefixed or self._outputs.is_fed
        if error is not None and is_used and not self._ending:
            reason = f"bps cannot write to its output: {error.strerror}; ending the job"
            self._fail(reason, _NO_OUTPUT_EXIT_CODE)

    def _on_ended(self, child: Child) -> None:
        if child.spec.task is not None:
            self._tell_agents_of_exits(child)
        elif child.spec.role != "scheduler":
            self._notices.tell(child.process.pid, child.spec.rank)
        if child.status == 0:
            self._outcome.finished.append(child.spec.label)
        elif not self._ending:
            if child.process.stderr is not None:
                self._outputs.read_rest(child.process.stderr.fileno())
            self._first_cause.add(child, time.monotonic())

    def _tell_agents_of_exits(self, ended: Child) -> None:
        if ended.status == 0:
            for child in self._children:
                if child.spec.role == "scheduler" and child.status is None:
                    child.tell({"exited": list(ended.spec.ranks)})

    def _look_for_the_end(self) -> None:
        if not self._own_workers_are_done():
            return
        if self._ending_by_signal:
            self._restarts.clear()
            self._signal_groups(signal.SIGTERM, only_workers=False)
        elif not self._ending and not self._is_part:
            self._restarts.clear()
            limit_s = min(self._drain_s, _TOLD_LIMIT_S) if self._ended_in_order() else self._drain_s
            until = time.monotonic() + limit_s
            self._drain_until = min(until, self._drain_until or until)

    def _ended_in_order(self) -> bool:
        """Return whether the scheduler has ended the job in order."""
        return any(c.spec.role == "scheduler" and c.status == 0 for c in self._children)

    def _judge(self, killed_only: bool) -> None:
        """React to losses, the most likely cause first."""
        ready = self._first_cause.in_order(killed_only)
        # One that ends the job makes the others unimportant.
        ends = [c for c in ready if self._judge_of_losses.judge(self._loss(c)).action == Action.END]
        for child in ends[:1] or ready:
            if self._ending:
                return
            self._first_cause.remove(child)
            self._react(child)

    def _loss(self, child: Child) -> Loss:
        """Describe what is lost with a child that ended badly.

        Others that a signal has stopped are no help: the job goes on without them.
        """
        role = child.spec.role
        well = (None, 0) if child.spec.is_worker else (None,)
        left = [c.spec for c in self._children if c.status in well and not c.is_stopped]
        left += [self._specs[place] for _, place in self._restarts]
        others = {one.label: one.count(role) for one in left}
        return Loss(
            label=child.spec.label,
            role=role,
            status=child.status or 0,
            lived_s=time.monotonic() - child.began,
            others=sum(others.values()),
            job_is_done=self._workers_are_done(),
        )

    def _react(self, child: Child) -> None:
        loss = self._loss(child)
        reaction = self._judge_of_losses.judge(loss)
        text = f"{child.how_and_why}; {reaction.text}"
        if reaction.action == Action.END:
            self._outcome.failed.append(loss.label)
            self._fail(text, loss.status if loss.status > 0 else 128 - loss.status)
            return
        child.signal_group(signal.SIGKILL)  # nobody else would end what it has started
        self.say(text)
        if reaction.action == Action.RESTART:
            self._judge_of_losses.grant_restart(loss)
            self._restarts.append((time.monotonic() + reaction.delay_s, child.place))
        else:
            self._outcome.failed.append(loss.label)

    def _workers_are_done(self) -> bool:
        """Return whether all workers of the job have ended; of a part nobody here knows."""
        return not self._is_part and self._own_workers_are_done()

    def _own_workers_are_done(self) -> bool:
        """Return whether no worker is left here to wait for.

        A worker that a signal has stopped does not count where the job goes on without it.
        """
        workers = [child for child in self._children if child.spec.is_worker]
        left = [child for child in workers if child.status is None]
        if not left:
            return True
        some_are = self._policy.min_workers > 0 and any(child.status == 0 for child in workers)
        return some_are and all(child.is_stopped for child in left)

    # Ending.

    def _fail(self, reason: str, exit_code: int) -> None:
        """Note the reason and end everything, politely first."""
        if self._outcome.exit_code == 0:
            self._outcome.exit_code = exit_code
        self.say(reason)
        self._end(signal.SIGTERM, only_workers=False)

    def _end(self, number: int, only_workers: bool) -> None:
        self._ending = True
        self._first_cause.clear()
        self._restarts.clear()
        self._drain_until = None
        if not is_talkative():
            # The user was told why the job ends. What they say of it now is no news, but an alarm.
            for child in self._children:
                if not child.spec.is_worker:
                    self._outputs.mute(child.outputs)
        self._signal_groups(number, only_workers)
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._grace_s

    def _on_signals(self, numbers: bytes) -> None:
        if signal.SIGCHLD in numbers:
            self._orphans.reap(self._own_processes())
            # It also comes when a worker is stopped, and the job may wait for this worker alone.
            if not self._ending:
                self._look_for_the_end()
        for number in numbers:
            self.pass_signal(number)

    def _own_processes(self) -> set[int]:
        """Return the processes that were started here and are not reaped."""
        own = {c.process.pid for c in self._children if c.process.returncode is None}
        return own | {self._watchdog} if self._watchdog is not None else own

    def _end_by_signal(self, number: int) -> None:
        if self._is_over:
            self._reader_has_time = False
            return
        if self._ending_by_signal:  # asked twice: no more patience
            self._kill_at = time.monotonic()
            return
        self._ending_by_signal = True
        self._outcome.exit_code = self._outcome.exit_code or 128 + number
        if not self._is_part:  # who has the rest of the job says it
            self.say(f"got {signal.Signals(number).name}; ending the job")
        self._end(number, only_workers=True)
        if self._own_workers_are_done():
            self._signal_groups(signal.SIGTERM, only_workers=False)

    def _handle_deadlines(self) -> None:
        now = time.monotonic()
        judge_at = self._first_cause.judge_at
        if judge_at is not None and now >= judge_at:
            self._judge(killed_only=False)
            self._look_for_the_end()
        for restart in [restart for restart in self._restarts if now >= restart[0]]:
            if not self._ending:
                self._restarts.remove(restart)
                self._start(restart[1])
        if self._drain_until is not None and now >= self._drain_until:
            self._end_the_rest()
        if self._kill_at is not None and now >= self._kill_at and self._give_up_at is None:
            self._signal_groups(signal.SIGKILL, only_workers=False)
            self._give_up_at = now + _AFTER_KILL_LIMIT_S

    def _end_the_rest(self) -> None:
        self._drain_until = None
        if not self._own_workers_are_done():  # one that was stopped runs again
            return
        left = [child for child in self._children if child.status is None]
        # A server that was started again too late to join is no fault of anybody.
        if not self._ended_in_order() or any(child.spec.is_worker for child in left):
            names = ", ".join(child.spec.label for child in left)
            self.say(f"the workers are done, but not {names}; ending the job")
        self._end(signal.SIGTERM, only_workers=False)

    def _time_left(self) -> float | None:
        """Return the time to the next deadline; None when only events count."""
        candidates = [
            self._first_cause.judge_at,
            self._drain_until,
            self._give_up_at or self._kill_at,
            self._outputs.show_at,
        ]
        times = [moment for moment in candidates if moment is not None]
        times += [moment for moment, _ in self._restarts]
        return min(_WAIT_LIMIT_S, max(0.0, min(times) - time.monotonic())) if times else None

    def _signal_groups(self, number: int, only_workers: bool) -> None:
        for child in self._children:
            if child.spec.is_worker or not only_workers:
                child.signal_group(number)

    def _clean_up(self) -> None:
        """Kill what is left of the job, free the process table, write the last lines."""
        self._is_over = True
        self._signal_groups(signal.SIGKILL, only_workers=False)
        guard.kill_marked(self._marker)
        for child in self._children:
            if child.status is None:
                self._selector.unregister(child.descriptor)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(_AFTER_KILL_LIMIT_S)
        self._orphans.end(self._own_processes())
        self._handle_output(lambda: self._outputs.is_fed, _LAST_OUTPUT_LIMIT_S)
        self._outputs.end()
        # Whoever has paused the output wants to see its end. A signal says that nobody does.
        limit_s = _LAST_OUTPUT_LIMIT_S if self._ending_by_signal else None
        self._handle_output(lambda: self._outputs.is_pending and self._reader_has_time, limit_s)
        if self._outputs.error is not None and self._prefixed:
            self._outcome.exit_code = self._outcome.exit_code or _NO_OUTPUT_EXIT_CODE

    def _handle_output(self, goes_on: Callable[[], bool], limit_s: float | None) -> None:
        until = None if limit_s is None else time.monotonic() + limit_s
        while goes_on():
            left_s = None if until is None else until - time.monotonic()
            if left_s is not None and left_s <= 0:
                return
            self._listen(to_all=True)
            for key, _ in self._selector.select(left_s):
                key.data()

    def say(self, text: str) -> None:
        """Tell the user something."""
        self._outputs.err.put_lines(os.fsencode(f"[{self._name}] {text}\n"))
