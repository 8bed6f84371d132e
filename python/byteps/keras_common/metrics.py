"""The callbacks that work on metrics: their average over the ranks, and the best model."""

from __future__ import annotations

import numbers
from collections.abc import MutableMapping
from typing import Any

import numpy as np

from byteps.common.operations.call import Call
from byteps.common.session import default
from byteps.common.types import Operation
from byteps.numpy.arrays import start_exchange


def average_metrics(logs: MutableMapping[str, Any] | None) -> None:
    """Put the average over all ranks in the place of each number. Collective.

    Ranks with other metrics are a MismatchError on every rank.
    """
    if default.size() <= 1:
        return
    logs = {} if logs is None else logs
    numbers_of = {name: _number(value) for name, value in logs.items()}
    names = sorted(name for name, number in numbers_of.items() if number is not None)
    values = np.array([numbers_of[name] for name in names], np.float64)
    detail = f"{len(names)} metrics: {', '.join(names)}"
    call = Call(Operation.AVERAGE, "Metrics", detail=detail)
    averages = default.pending().synchronize(start_exchange(call, values))
    logs.update(zip(names, averages.tolist(), strict=True))


def _number(value: Any) -> float | None:
    if isinstance(value, numbers.Real):
        return float(value)
    if getattr(value, "shape", None) == ():
        return float(value)
    return None


class MetricAverage:
    """Averages the metrics over all ranks at the end of each epoch.

    Put it before callbacks that read metrics.

    Example::

        callbacks = [bps.callbacks.MetricAverageCallback()]
    """

    def __init__(self, device: str = "") -> None:
        """`device` is accepted for programs written for the original and for Horovod."""
        super().__init__()
        del device

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Average the metrics; callbacks that come later see the averages."""
        del epoch
        average_metrics(logs)


class BestModel:
    """Saves the model on rank 0 whenever a metric is better than before.

    Arguments: (monitor='val_loss', verbose=0, mode='auto', save_freq='epoch', filepath=None,
    save_weights_only=False). Put it after MetricAverageCallback.

    Example::

        callbacks = [bps.callbacks.BestModelCheckpoint(monitor="loss", filepath="best.keras")]
    """

    filepath: Any

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        mode: str = "auto",
        save_freq: Any = "epoch",
        filepath: Any = None,
        save_weights_only: bool = False,
    ) -> None:
        """Prepare to save to `filepath`, which may be set later, before training begins."""
        ending = ".weights.h5" if save_weights_only else ".keras"
        super().__init__(  # type: ignore[call-arg]
            filepath=f"best{ending}" if filepath is None else filepath,
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
        )
        if filepath is None:
            self.filepath = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Raise if nobody has said where to save."""
        if not self.filepath:
            raise ValueError(
                "BestModelCheckpoint has no filepath: give filepath='best.keras', or set its "
                "attribute filepath, before training begins."
            )
        super().on_train_begin(logs)  # type: ignore[misc]

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Save, if `save_freq` is a number of batches."""
        if default.rank() == 0:
            super().on_train_batch_end(batch, logs)  # type: ignore[misc]

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Save, if `save_freq` says so."""
        if default.rank() == 0:
            super().on_epoch_end(epoch, logs)  # type: ignore[misc]
