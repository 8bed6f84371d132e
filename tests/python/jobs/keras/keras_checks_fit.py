"""Checks of optimizers in `fit`, for all ranks."""

from __future__ import annotations

import copy
import pickle
import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras_checks import BACKEND, assert_alike, assert_raises, data, fit, make_model

import byteps.keras as bps


@keras.saving.register_keras_serializable("tests", "Slow")
class Slow(keras.optimizers.SGD):
    """An optimizer of a user's."""


def compiled(rank: int, optimizer: Any, **more: Any) -> Any:
    model = make_model(rank)
    model.compile(optimizer, loss="mse", metrics=["mae"], **more)
    return model


def check_classes_and_configs(rank: int, size: int) -> None:
    for optimizer in (
        keras.optimizers.Adam(0.01),
        keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
        Slow(0.2),
        keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01)),
        keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)),
    ):
        made = bps.DistributedOptimizer(optimizer)
        assert isinstance(made, type(optimizer))
        assert type(made).__name__ == type(optimizer).__name__
        assert made.get_config() == optimizer.get_config()
        again = type(made).from_config(made.get_config())
        assert type(again) is type(made)
        assert again.get_config() == made.get_config()
        copied = copy.deepcopy(made)
        assert type(copied) is type(made)
        assert copied.get_config() == made.get_config()
        assert type(pickle.loads(pickle.dumps(made))) is type(optimizer)
        saved, usual = (keras.optimizers.serialize(one) for one in (made, optimizer))
        for key in ("module", "class_name", "config"):
            assert saved[key] == usual[key], (saved, usual)


def check_arguments(rank: int, size: int) -> None:
    def make(**keywords: Any) -> Any:
        return lambda: bps.DistributedOptimizer(keras.optimizers.SGD(), **keywords)

    assert_raises(ValueError, "op=Average or op=Sum", make(op=bps.Max))
    assert_raises(NotImplementedError, "Adasum", make(op=bps.Adasum))
    assert_raises(ValueError, "at least 1", make(backward_passes_per_step=0))
    assert_raises(ValueError, "groups", make(groups=0))
    assert_raises(ValueError, "predivide", make(op=bps.Sum, gradient_predivide_factor=2.0))
    assert_raises(ValueError, "optimizer of Keras 3", lambda: bps.DistributedOptimizer("sgd"))
    assert_raises(ValueError, "already", lambda: bps.DistributedOptimizer(make()()))
    assert_raises(
        ValueError,
        "Put the LossScaleOptimizer inside",
        lambda: keras.optimizers.LossScaleOptimizer(make()()),
    )
    assert_raises(
        ValueError,
        "local_layers",
        lambda: bps.PartialDistributedOptimizer(keras.optimizers.SGD(), local_layers=["dense"]),
    )
    make(groups=2, num_groups=0, name="mine", device_dense="/cpu:0")()


def check_fit_keeps_ranks_alike(rank: int, size: int) -> None:
    model = compiled(rank, bps.DistributedOptimizer(keras.optimizers.Adam(0.01)))
    broadcast = bps.callbacks.BroadcastGlobalVariablesCallback(0)
    average = bps.callbacks.MetricAverageCallback()
    history = fit(model, rank, [broadcast, average])
    assert_alike(model, "fit")
    assert broadcast.broadcast_done
    losses = bps.allgather_object(history, name="history")
    assert all(other == losses[0] for other in losses), losses
    slots = bps.allgather_object(
        [np.asarray(keras.ops.convert_to_numpy(v)).tobytes() for v in model.optimizer.variables],
        name="slots",
    )
    assert all(other == slots[0] for other in slots)


def check_embeddings(rank: int, size: int) -> None:
    """TensorFlow alone has gradients of embeddings as rows."""
    if BACKEND != "tensorflow":
        return
    x = np.random.default_rng(rank).integers(0, 5, (16, 3))
    weights = []
    for way in ({}, {"run_eagerly": True}):
        for is_dense in (False, True):
            keras.utils.set_random_seed(0)
            layers = keras.layers
            model = keras.Sequential(
                [keras.Input((3,)), layers.Embedding(5, 4), layers.Flatten(), layers.Dense(1)]
            )
            optimizer = bps.DistributedOptimizer(
                keras.optimizers.SGD(0.1), sparse_as_dense=is_dense
            )
            model.compile(optimizer, loss="mse", **way)
            model.fit(x, x.sum(1, keepdims=True) / 9, batch_size=4, shuffle=False, verbose=0)
            assert_alike(model, "embeddings")
            weights.append(model.get_weights()[0])
    assert all(np.allclose(one, weights[0], atol=1e-6) for one in weights)


def check_own_loop(rank: int, size: int) -> None:
    variable = keras.Variable(np.zeros(3, np.float32))
    other = keras.Variable(np.zeros(2, np.float32))
    optimizer = bps.DistributedOptimizer(keras.optimizers.SGD(1.0), op=bps.Sum)
    gradient = keras.ops.convert_to_tensor(np.full(3, rank + 1, np.float32))
    # None stays None, and is no tensor on its way.
    optimizer.apply_gradients([(gradient, variable)])
    total = size * (size + 1) / 2
    assert (keras.ops.convert_to_numpy(variable) == -total).all()
    assert (keras.ops.convert_to_numpy(gradient) == rank + 1).all()  # the user's own stays
    two = bps.DistributedOptimizer(keras.optimizers.SGD(1.0), op=bps.Sum)
    two.build([variable, other])
    two.apply([gradient, None])
    assert (keras.ops.convert_to_numpy(variable) == -2 * total).all()
    assert (keras.ops.convert_to_numpy(other) == 0).all()


def check_local_layers(rank: int, size: int) -> None:
    model = make_model(0)
    local, shared = model.layers
    optimizer = bps.PartialDistributedOptimizer(keras.optimizers.SGD(0.1), local_layers=local)
    model.compile(optimizer, loss="mse")
    fit(model, rank, [bps.callbacks.BroadcastGlobalVariablesCallback(0, "", local.weights)])
    kernels = bps.allgather_object([w.tobytes() for w in local.get_weights()], name="local")
    assert all(kernels[0] != other for other in kernels[1:])
    kernels = bps.allgather_object([w.tobytes() for w in shared.get_weights()], name="shared")
    assert all(kernels[0] == other for other in kernels[1:])
    variable = keras.Variable(np.zeros(1, np.float32))
    optimizer = bps.DistributedOptimizer(keras.optimizers.SGD(1.0))
    optimizer.register_local_var(variable)
    optimizer.apply([keras.ops.ones(1)], [variable])
    assert np.allclose(keras.ops.convert_to_numpy(variable), -1 / size)


def check_accumulation(rank: int, size: int) -> None:
    optimizer = bps.DistributedOptimizer(
        keras.optimizers.SGD(1.0), backward_passes_per_step=3, op=bps.Sum
    )
    variable = keras.Variable(np.zeros(2, np.float32))
    for step in range(1, 7):
        infinite = np.inf if step == 3 else 0.0
        optimizer.apply([keras.ops.ones(2) * (rank + 1) + infinite], [variable])
        assert int(optimizer.iterations) == step
        value = keras.ops.convert_to_numpy(variable)
        if step == 3:
            assert (value == -np.inf).all()
            variable.assign(np.zeros(2, np.float32))
        elif step < 6:
            assert (value == 0).all()
    value = keras.ops.convert_to_numpy(variable)  # infinity has not stayed in the sums
    assert (value == -3 * size * (size + 1) / 2).all(), value


def check_saving(rank: int, size: int) -> None:
    """What is saved loads as the stock class, and as a distributed one with `load_model`."""
    for number, (optimizer, passes) in enumerate(
        ((keras.optimizers.Adam(0.01), 1), (Slow(0.1, momentum=0.9), 2))
    ):
        made = bps.DistributedOptimizer(optimizer, backward_passes_per_step=passes)
        model = compiled(0, made)
        fit(model, rank)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.keras"
            model.save(path)
            stock = keras.models.load_model(path)
            assert type(stock.optimizer) is type(optimizer)
            mine = bps.load_model(path)
        assert isinstance(mine.optimizer, type(optimizer))
        assert hasattr(mine.optimizer, "byteps_settings")
        for one, other in zip(stock.optimizer.variables, mine.optimizer.variables, strict=True):
            values = keras.ops.convert_to_numpy(one), keras.ops.convert_to_numpy(other)
            assert (values[0] == values[1]).all()
        assert int(mine.optimizer.iterations) == int(made.iterations) == 8
        fit(mine, rank)
        assert_alike(mine, f"loaded {number}")
    assert_raises(ValueError, "File not found", lambda: bps.load_model("/no/such/file.keras"))


def check_mixed_precision(rank: int, size: int) -> None:
    """A rank whose gradients are not finite lets all ranks skip the step."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        optimizer = bps.DistributedOptimizer(keras.optimizers.SGD(0.01))
        assert isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        model = compiled(0, optimizer)
        before = model.get_weights()
        x, y = data(rank)
        if rank == 0:
            y = y * np.float32(1e30)
        model.fit(x, y, batch_size=16, epochs=1, verbose=0)
        for one, other in zip(before, model.get_weights(), strict=True):
            assert (one == other).all()
        fit(model, rank)
        assert_alike(model, "mixed precision")
    finally:
        keras.config.set_dtype_policy("float32")


def check_mismatch_in_fit(rank: int, size: int) -> None:
    if size == 1:
        return
    ways: list[dict[str, Any]] = [{"jit_compile": False}, {"run_eagerly": True}]
    if BACKEND != "torch":  # whose compiler takes minutes, and compiles no exchange
        ways.append({"jit_compile": True})
    for way in ways:
        optimizer = bps.DistributedOptimizer(keras.optimizers.SGD(0.1))
        model = make_model(0, width=8 if rank == 0 else 4)
        model.compile(optimizer, loss="mse", **way)

        def fit_and_read(model: Any = model) -> Any:
            fit(model, rank)
            return model.get_weights()  # JAX computes ahead, and raises where values are read

        assert_raises(bps.MismatchError, "kernel", fit_and_read)
