"""Checks of what users combine with a distributed optimizer: other callbacks, several models, join,
process sets."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras_checks import assert_alike, assert_raises, data, fit, make_model

import byteps.keras as bps


class Scores(keras.callbacks.Callback):
    """Puts a score into the metrics: on rank 0 it falls for ever, on the others it rises from the
    fourth epoch on."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs["score"] = float(-epoch if bps.rank() == 0 else 10 * max(0, epoch - 2))


def check_early_stopping_on_an_averaged_metric(rank: int, size: int) -> None:
    """All ranks stop after the same epoch, although rank 0 alone would go on."""
    model = make_model(rank)
    model.compile(bps.DistributedOptimizer(keras.optimizers.SGD(0.01)), loss="mse")
    callbacks = [
        bps.callbacks.BroadcastGlobalVariablesCallback(0),
        Scores(),
        bps.callbacks.MetricAverageCallback(),
        keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=1),
        keras.callbacks.EarlyStopping(monitor="score", mode="min", patience=0),
    ]
    history = fit(model, rank, callbacks, epochs=6)
    assert len(history["score"]) == (4 if size > 1 else 6)
    assert_alike(model, "early stopping")


def check_two_models_by_turns(rank: int, size: int) -> None:
    models = [make_model(rank), make_model(rank + 10, width=5)]
    for model in models:
        model.compile(bps.DistributedOptimizer(keras.optimizers.Adam(0.01)), loss="mse")
        fit(model, rank, [bps.callbacks.BroadcastGlobalVariablesCallback(0)], epochs=1)
    fit(models[0], rank, epochs=1)
    for number, model in enumerate(models):
        assert_alike(model, f"model {number}")


def check_layers_that_are_frozen_and_thawed(rank: int, size: int) -> None:
    model = make_model(rank)
    for is_trained in (False, True):
        model.layers[0].trainable = is_trained
        model.compile(bps.DistributedOptimizer(keras.optimizers.SGD(0.1)), loss="mse")
        fit(model, rank, [bps.callbacks.BroadcastGlobalVariablesCallback(0)], epochs=1)
        assert_alike(model, f"trained: {is_trained}")


def check_a_gradient_that_one_rank_lacks(rank: int, size: int) -> None:
    if size == 1:
        return
    variables = [keras.Variable(np.ones(2, np.float32)) for _ in range(2)]
    optimizer = bps.DistributedOptimizer(keras.optimizers.SGD(1.0))
    optimizer.build(variables)
    one = keras.ops.ones(2)
    gradients = [one, None if rank == 0 else one]
    assert_raises(bps.MismatchError, "rank", lambda: optimizer.apply(gradients))


def check_fit_in_a_process_set(rank: int, size: int) -> None:
    if size < 3:
        return
    pair = bps.add_process_set([0, size - 1])
    model = make_model(0)
    optimizer = bps.DistributedOptimizer(keras.optimizers.SGD(0.1), process_set=pair)
    model.compile(optimizer, loss="mse")
    fit(model, rank, epochs=1)
    weights = bps.allgather_object([w.tobytes() for w in model.get_weights()], name="of a set")
    assert weights[0] == weights[-1]
    assert weights[1] != weights[0]  # it has trained alone
    bps.remove_process_set(pair)


def check_join_after_fit(rank: int, size: int) -> None:
    """Ranks with fewer batches join; the others go on, and their weights go to all."""
    model = make_model(0)
    model.compile(bps.DistributedOptimizer(keras.optimizers.SGD(0.01)), loss="mse")
    x, y = data(rank, rows=4 * (rank + 1))
    model.fit(x, y, batch_size=4, verbose=0)
    model.get_weights()  # JAX computes ahead: the last step shall be over
    last = bps.join()
    assert last == size - 1
    bps.broadcast_variables(model.weights, root_rank=last)
    assert_alike(model, "after join")
