"""What the loss of a process means for its job: start it again, go on without it, or end."""

from __future__ import annotations

import signal
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

RESTARTS_DEFAULT = 3
# A service that lived this long is started again at once, whatever happened before.
_STEADY_S = 30.0
_BACK_OFF_FIRST_S = 0.25
_BACK_OFF_MAX_S = 4.0
# Exit code of the programs for wrong usage: the same again with the same words.
_USAGE_EXIT_CODE = 2
# That of a server without which the job goes on for good. The agent of a host with such servers
# ends with it, too.
LEFT_OUT_EXIT_CODE = 3


@dataclass(frozen=True)
class LossPolicy:
    """What a job survives.

    `restarts`: how often servers and the scheduler are started again, all together.
    `min_workers`: as many workers must live or have ended in order; 0: all of them.
    `servers_elsewhere`: servers of the job that another launcher runs. `is_part`: it runs workers,
    too, and decides whether the job goes on without those of this host.
    """

    restarts: int = 0
    min_workers: int = 0
    servers_elsewhere: int = 0
    is_part: bool = False


@dataclass(frozen=True)
class Loss:
    """A process that ended badly, and what it leaves behind."""

    label: str
    role: str
    status: int  # as in subprocess: exit code, or minus the signal
    lived_s: float
    # Others of its role that live or will be started again; workers that ended in order count.
    others: int
    job_is_done: bool  # all workers have ended


class Action(Enum):
    """What the launcher does about a loss."""

    RESTART = "restart"
    GO_ON = "go on"
    END = "end"


@dataclass(frozen=True)
class Reaction:
    """What to do, after which time, and the words for it."""

    action: Action
    text: str
    delay_s: float = 0.0


def describe_status(label: str, status: int) -> str:
    """Return a sentence about how a process ended."""
    if status < 0:
        with suppress(ValueError):
            return f"{label} was killed by signal {-status} ({signal.Signals(-status).name})"
        return f"{label} was killed by signal {-status}"
    return f"{label} ended with exit code {status}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class LossJudge:
    """Applies the policy. Counts the restarts that it has granted."""

    def __init__(self, policy: LossPolicy) -> None:
        self._policy = policy
        self._used = 0
        self._in_a_row: Counter[str] = Counter()

    def judge(self, loss: Loss) -> Reaction:
        """Say what to do about the loss; asking again about the same one gives the same answer."""
        if loss.role == "worker":
            return self._judge_worker(loss)
        if loss.job_is_done:
            return Reaction(Action.GO_ON, "the workers are done without it")
        if self._ended_on_purpose(loss):
            return Reaction(Action.END, "ending the job")
        if loss.role == "server" and loss.status == LEFT_OUT_EXIT_CODE:
            return self._without(loss)
        if self._used < self._policy.restarts:
            text = f"restarting it ({self._used + 1} of {self._policy.restarts})"
            return Reaction(Action.RESTART, text, self._delay(loss))
        return self._without(loss)

    def grant_restart(self, loss: Loss) -> None:
        """Count the restart that `judge` has proposed."""
        self._used += 1
        self._in_a_row[loss.label] = 1 if self._is_steady(loss) else self._in_a_row[loss.label] + 1

    def _judge_worker(self, loss: Loss) -> Reaction:
        needed = self._policy.min_workers
        if needed == 0:
            return Reaction(Action.END, "ending the job")
        if loss.others >= needed:
            return Reaction(Action.GO_ON, f"going on with {_counted(loss.others, 'worker')}")
        if self._policy.is_part and not loss.others:
            return Reaction(Action.END, "none left on this host")
        left = f"{_counted(loss.others, 'worker')} left, --min-np is {needed}"
        return Reaction(Action.END, f"{left if loss.others else 'none left'}; ending the job")

    @staticmethod
    def _ended_on_purpose(loss: Loss) -> bool:
        """A scheduler that exits by itself has ended the job and said why."""
        return loss.status == _USAGE_EXIT_CODE or (loss.role == "scheduler" and loss.status > 0)

    def _without(self, loss: Loss) -> Reaction:
        allowed = self._policy.restarts
        is_spent = allowed and self._used >= allowed
        spent = f"{_counted(allowed, 'restart')} used up; " if is_spent else ""
        others = loss.others + self._policy.servers_elsewhere
        if loss.role == "server" and others > 0:
            return Reaction(Action.GO_ON, f"{spent}going on with {_counted(others, 'server')}")
        return Reaction(Action.END, f"{spent}ending the job")

    @staticmethod
    def _is_steady(loss: Loss) -> bool:
        return loss.lived_s >= _STEADY_S

    def _delay(self, loss: Loss) -> float:
        """The first time there is no reason to wait: everybody else does."""
        before = self._in_a_row[loss.label]
        if before == 0 or self._is_steady(loss):
            return 0.0
        delay: float = _BACK_OFF_FIRST_S * 2 ** (before - 1)
        return min(_BACK_OFF_MAX_S, delay)
