"""Checks of callbacks, for all ranks."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras_checks import assert_raises, fit, make_model

import byteps.keras as bps

STEPS = 4  # batches of an epoch of `fit`


class Rates(keras.callbacks.Callback):
    """Notes the learning rate of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seen.append(float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)))


def rates(rank: int, callback: Any, epochs: int = 4, rate: float = 0.1) -> list[float]:
    model = make_model(0)
    model.compile(keras.optimizers.SGD(rate, momentum=0.9), loss="mse")
    seen = Rates()
    history = fit(model, rank, [callback, seen], epochs=epochs)
    assert history["lr"] == history["learning_rate"]
    assert np.allclose(history["lr"], seen.seen[STEPS - 1 :: STEPS])
    return seen.seen


# The callbacks of learning rates exchange nothing, so the checks of their numbers are for one rank.


def check_schedules(rank: int, size: int) -> None:
    if rank != 0:
        return
    schedule = bps.callbacks.LearningRateScheduleCallback
    flat = [0.1] * STEPS + [0.05] * STEPS * 2 + [0.05] * STEPS
    # The original's: a constant is the same in all its epochs.
    assert np.allclose(rates(rank, schedule(0.5, 1, 3, initial_lr=0.1)), flat)
    constant = schedule(multiplier=0.5, start_epoch=1, end_epoch=3, initial_lr=0.1)
    assert np.allclose(rates(rank, constant), flat)
    # Horovod's: the rate first; a constant is a power.
    powers = [0.1] * STEPS + [0.1] * STEPS + [0.05] * STEPS + [0.025] * STEPS
    assert np.allclose(rates(rank, schedule(0.1, 0.5, start_epoch=1)), powers)
    assert np.allclose(rates(rank, schedule(0.1, multiplier=0.5, start_epoch=1)), powers)
    function = [0.2 / (1 + epoch) for epoch in range(4) for _ in range(STEPS)]
    assert np.allclose(rates(rank, schedule(0.2, lambda epoch: 1 / (1 + epoch))), function)
    smooth = [0.2 / (1 + batch / STEPS) for batch in range(4 * STEPS)]
    one = schedule(lambda epoch: 1 / (1 + epoch), staircase=False, initial_lr=0.2)
    assert np.allclose(rates(rank, one), smooth)


def check_warmup(rank: int, size: int) -> None:
    if rank != 0:
        return
    warmup = bps.callbacks.LearningRateWarmupCallback
    steps = 2 * STEPS
    wanted = [0.4 / size * ((batch + 1) / steps * (size - 1) + 1) for batch in range(steps)]
    wanted += [0.4] * steps
    for callback in (
        warmup(2, initial_lr=0.4),
        warmup(warmup_epochs=2, initial_lr=0.4, verbose=1),
        warmup(0.4, 2),
        warmup(0.4, warmup_epochs=2, momentum_correction=False),
    ):
        assert np.allclose(rates(rank, callback), wanted), wanted
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        callback = warmup(2)
    assert any(issubclass(warning.category, DeprecationWarning) for warning in caught)
    assert np.allclose(rates(rank, callback, rate=0.4), wanted)


def check_momentum_correction(rank: int, size: int) -> None:
    """Momentum grows with the rate: as if each batch had momentum * new / old."""
    if rank != 0:
        return
    schedule = bps.callbacks.LearningRateScheduleCallback
    weights = []
    for is_corrected in (True, False):
        model = make_model(0)
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss="mse")
        half = schedule(0.1, lambda epoch: 0.5**epoch, momentum_correction=is_corrected)
        fit(model, rank, [half])
        weights.append(model.get_weights()[0])
    # By hand, in float64.
    model = make_model(0)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss="mse")
    fit(model, rank, epochs=1)
    for velocity in model.optimizer.momentums:
        velocity.assign(velocity * 0.5)
    model.optimizer.learning_rate = 0.05
    fit(model, rank, epochs=1)
    assert np.allclose(weights[0], model.get_weights()[0], atol=1e-6)
    assert not np.allclose(weights[0], weights[1], atol=1e-6)


def check_wrong_callbacks(rank: int, size: int) -> None:
    broadcast = bps.callbacks.BroadcastGlobalVariablesCallback
    schedule = bps.callbacks.LearningRateScheduleCallback
    best = bps.callbacks.BestModelCheckpoint
    assert_raises(ValueError, "local_variables", lambda: broadcast(0, "", "kernel"))
    assert_raises(ValueError, "multiplier", lambda: schedule("half", initial_lr=0.1))
    assert_raises(TypeError, "no argument", lambda: schedule(0.5, epochs=3))
    model = make_model(0)
    model.compile("sgd", loss="mse")
    assert_raises(ValueError, "filepath", lambda: fit(model, rank, [best(monitor="loss")]))
    decay = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    model.compile(keras.optimizers.SGD(decay), loss="mse")
    assert_raises(
        ValueError, "schedule object", lambda: fit(model, rank, [schedule(0.1, lambda e: 0.5)])
    )


def check_metrics_and_best_model(rank: int, size: int) -> None:
    model = make_model(0)
    model.compile(bps.DistributedOptimizer(keras.optimizers.SGD(0.01)), loss="mse", metrics=["mae"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "best.keras"
        callbacks = [
            bps.callbacks.MetricAverageCallback(),
            bps.callbacks.BestModelCheckpoint(monitor="loss", filepath=str(path)),
        ]
        history = fit(model, rank, callbacks)
        assert path.exists() == (rank == 0)
        if rank == 0:
            assert keras.models.load_model(path).count_params() == model.count_params()
    assert set(history) == {"loss", "mae"}
    everybody = bps.allgather_object(history, name="metrics")
    assert all(other == everybody[0] for other in everybody)
