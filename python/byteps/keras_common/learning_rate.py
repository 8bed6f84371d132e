"""The callbacks that change the learning rate: schedules and warm-up.

The original and Horovod order the arguments differently; arguments.py tells them apart.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from byteps.common.session import default
from byteps.keras_common.access import Keras
from byteps.keras_common.arguments import schedule_arguments, warmup_arguments


class _ChangesRate:
    """Sets the learning rate to initial_lr * multiplier(epoch)."""

    byteps_keras: ClassVar[Keras]
    model: Any
    params: Any

    start_epoch: int = 0
    end_epoch: int | None = None
    staircase = True
    momentum_correction = True
    steps_per_epoch: int | None = None
    initial_lr: float | None = None
    current_epoch = 0

    def multiplier(self, epoch: float) -> float:
        """Return what the initial learning rate is multiplied by."""
        raise NotImplementedError

    def _warn_without_rate(self) -> None:
        if self.initial_lr is None:
            warnings.warn(
                f"{type(self).__name__} without initial_lr takes the rate that the optimizer has "
                "when training begins; pass initial_lr.",
                DeprecationWarning,
                stacklevel=3,
            )

    def on_train_begin(self, logs: Any = None) -> None:
        """Find out the initial rate and the number of batches in an epoch."""
        del logs
        optimizer = self.model.optimizer
        if isinstance(optimizer.get_config().get("learning_rate"), dict):
            raise ValueError(
                f"{type(self).__name__} cannot change the learning rate of an optimizer that has a "
                "schedule object. Give the optimizer a number as its learning_rate, or remove the "
                "callback."
            )
        if self.initial_lr is None:
            self.initial_lr = self._rate(optimizer)
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = self.params.get("steps")
            if not self.steps_per_epoch:
                raise ValueError(
                    f"Keras does not know how many batches an epoch has. Pass steps_per_epoch to "
                    f"{type(self).__name__}."
                )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Remember the epoch."""
        del logs
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Set the rate."""
        del logs
        is_over = self.end_epoch is not None and self.current_epoch >= self.end_epoch
        if self.current_epoch < self.start_epoch or is_over:
            return
        if self.staircase:
            if batch == 0:
                self._adjust(self.current_epoch)
        elif self.steps_per_epoch:
            self._adjust(self.current_epoch + batch / self.steps_per_epoch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Show the rate among the metrics."""
        del epoch
        if logs is not None:
            logs["lr"] = logs["learning_rate"] = self._rate(self.model.optimizer)

    def _rate(self, optimizer: Any) -> float:
        return float(self.byteps_keras.read(optimizer.learning_rate))

    def _adjust(self, epoch: float) -> None:
        optimizer = self.model.optimizer
        old = self._rate(optimizer)
        assert self.initial_lr is not None
        optimizer.learning_rate = self.initial_lr * self.multiplier(epoch)
        new = self._rate(optimizer)
        if not self.momentum_correction or new == old or old <= 0:
            return
        # Momentum times new/old during one batch is the same as what it multiplies times new/old,
        # once. The latter also reaches programs that are compiled already.
        for variable in self.byteps_keras.momenta(optimizer):
            variable.assign(variable * (new / old))


class RateSchedule(_ChangesRate):
    """Sets the learning rate to initial_lr * multiplier(epoch) in some epochs.

    Arguments of the original: (multiplier, start_epoch=0, end_epoch=None, staircase=True,
    momentum_correction=True, steps_per_epoch=None, initial_lr=None). Of Horovod: (initial_lr,
    multiplier, start_epoch=0, ...). The types tell which order it is.

    Example::

        callbacks = [bps.callbacks.LearningRateScheduleCallback(
            initial_lr=0.1, multiplier=lambda epoch: 0.5**epoch)]
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        """See `schedule_arguments`."""
        super().__init__()
        given = schedule_arguments(arguments, keywords)
        self.start_epoch = given["start_epoch"]
        self.end_epoch = given["end_epoch"]
        self.staircase = given["staircase"]
        self.momentum_correction = given["momentum_correction"]
        self.steps_per_epoch = given["steps_per_epoch"]
        self.initial_lr = given["initial_lr"]
        self._multiplier: Callable[[float], float] = given["multiplier"]
        self._warn_without_rate()

    def multiplier(self, epoch: float) -> float:
        """Return what the user's function says."""
        return float(self._multiplier(epoch))


class RateWarmup(_ChangesRate):
    """Raises the learning rate from initial_lr / size to initial_lr in the first epochs.

    Arguments of the original: (warmup_epochs=5, momentum_correction=True, steps_per_epoch=None,
    verbose=0, initial_lr=None). Of Horovod: (initial_lr, warmup_epochs=5, ...).

    Example::

        callbacks = [bps.callbacks.LearningRateWarmupCallback(initial_lr=0.1, warmup_epochs=3)]
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        """See `warmup_arguments`."""
        super().__init__()
        given = warmup_arguments(arguments, keywords)
        self.warmup_epochs = self.end_epoch = given["warmup_epochs"]
        self.staircase = False
        self.momentum_correction = given["momentum_correction"]
        self.steps_per_epoch = given["steps_per_epoch"]
        self.verbose = given["verbose"]
        self.initial_lr = given["initial_lr"]
        self._warn_without_rate()

    def multiplier(self, epoch: float) -> float:
        """Return 1/size in the beginning, and 1 after the last batch of the warm-up."""
        assert self.steps_per_epoch is not None
        size = default.size()
        done = (epoch + 1.0 / self.steps_per_epoch) / self.warmup_epochs
        return (done * (size - 1) + 1) / size

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Say that the warm-up is over, if the user wants to know."""
        super().on_epoch_end(epoch, logs)
        if epoch == self.warmup_epochs - 1 and self.verbose > 0 and default.rank() == 0:
            rate = self._rate(self.model.optimizer)
            text = f"Epoch {epoch + 1}: finished gradual learning rate warmup to {rate:g}."
            sys.stdout.write(f"\n{text}\n")  # as Keras shows what it does
