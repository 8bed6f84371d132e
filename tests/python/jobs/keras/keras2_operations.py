"""A worker: byteps.tensorflow.keras with Keras 2: `tf.keras` up to TensorFlow 2.15, or tf_keras.

With an argument, only the check of that name.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

if importlib.util.find_spec("tf_keras") is None:
    keras: Any = tf.keras
else:
    import tf_keras as keras

import byteps.tensorflow.keras as bps

ROWS = 4
STEPS = 6


def assert_raises(expected: type[BaseException], text: str, function: Any) -> None:
    found: BaseException | None = None
    try:
        with bps.typed_errors():
            function()
    except expected as error:
        found = error
    assert found is not None, f"no {expected.__name__}: {text}"
    assert text in str(found), str(found)


def make_model(seed: int, width: int = 8) -> Any:
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(width, activation="tanh"),
            keras.layers.Dense(1),
        ]
    )


def batch(step: int, size: int) -> tuple[Any, Any]:
    dice = np.random.default_rng(step)
    rows = ROWS * size
    return dice.normal(size=(rows, 6)), dice.normal(size=(rows, 1))


def train(model: Any, optimizer: Any, mine: slice, rows: int, **options: Any) -> None:
    model.compile(optimizer, loss="mse", **options)
    parts = [[one[mine] for one in batch(step, bps.size())] for step in range(STEPS)]
    inputs, targets = (np.concatenate(one) for one in zip(*parts, strict=True))
    model.fit(inputs, targets, batch_size=rows, shuffle=False, verbose=0)


def check_training(rank: int, size: int) -> None:
    old = keras.optimizers.legacy
    for name, make, passes in (
        ("sgd", lambda: keras.optimizers.SGD(0.1, momentum=0.9), 1),
        ("adam", lambda: keras.optimizers.Adam(0.01), 1),
        ("old sgd", lambda: old.SGD(0.1, momentum=0.9), 1),
        ("old adam", lambda: old.Adam(0.01), 1),
        ("accumulation", lambda: keras.optimizers.SGD(0.1, momentum=0.9), 2),
        ("old accumulation", lambda: old.SGD(0.1, momentum=0.9), 2),
    ):
        alone = make_model(0)
        if rank == 0:  # all ranks have the same weights, so one compares
            train(alone, make(), slice(None), ROWS * size * passes)
        ways = ({"run_eagerly": True}, {}) if passes == 1 else ({},)
        for way in ways:
            model = make_model(rank)
            bps.broadcast_variables(model.weights, root_rank=0)
            optimizer = bps.DistributedOptimizer(
                make(), backward_passes_per_step=passes, average_aggregated_gradients=True
            )
            mine = slice(rank * ROWS, (rank + 1) * ROWS)
            train(model, optimizer, mine, ROWS, jit_compile=False, **way)
            assert int(optimizer.iterations) == STEPS, (name, optimizer.iterations)
            weights = model.get_weights()
            everybody = bps.allgather_object([w.tobytes() for w in weights], name=name)
            assert all(other == everybody[0] for other in everybody), (name, way)
            for one, other in zip(weights, alone.get_weights() if rank == 0 else (), strict=False):
                assert one.dtype == np.float64
                assert abs(one - other).max() < 1e-12, (name, way, abs(one - other).max())


def check_classes_and_saving(rank: int, size: int) -> None:
    for make in (lambda: keras.optimizers.Adam(0.01), lambda: keras.optimizers.legacy.Adam(0.01)):
        made = bps.DistributedOptimizer(make())
        assert type(made).__name__ == "Adam"
        assert made.get_config() == make().get_config()
        model = make_model(0)
        train(model, made, slice(rank * ROWS, (rank + 1) * ROWS), ROWS)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.h5"
            model.save(str(path))
            stock = keras.models.load_model(str(path))
            mine = bps.load_model(str(path))
        assert not hasattr(stock.optimizer, "byteps_settings")
        assert hasattr(mine.optimizer, "byteps_settings")
        assert int(mine.optimizer.iterations) == STEPS
        mine.fit(*batch(0, size), verbose=0)


def check_callbacks(rank: int, size: int) -> None:
    model = make_model(rank)
    sgd = keras.optimizers.SGD(0.1 * size, momentum=0.9)
    model.compile(bps.DistributedOptimizer(sgd), loss="mse")
    x, y = batch(rank, 4)
    history = model.fit(
        x,
        y,
        batch_size=4,
        epochs=4,
        verbose=0,
        callbacks=[
            bps.callbacks.BroadcastGlobalVariablesCallback(0),
            bps.callbacks.MetricAverageCallback(),
            bps.callbacks.LearningRateWarmupCallback(0.1 * size, warmup_epochs=2),
            bps.callbacks.LearningRateScheduleCallback(0.1 * size, lambda e: 0.5, start_epoch=2),
        ],
    ).history
    assert np.allclose(history["lr"][1:], [0.1 * size, 0.05 * size, 0.05 * size])
    everybody = bps.allgather_object((history, [w.tobytes() for w in model.get_weights()]))
    assert all(other == everybody[0] for other in everybody)


def check_values_and_own_loop(rank: int, size: int) -> None:
    total = size * (size + 1) / 2
    assert (bps.allreduce(np.full(3, rank + 1.0), name="array", op=bps.Sum) == total).all()
    tensor = bps.push_pull(tf.fill([3], rank + 1.0), name="tensor", average=False)
    assert tf.is_tensor(tensor)
    assert (tensor.numpy() == total).all()
    assert bps.broadcast(rank, 0, name="number") == 0
    variable = tf.Variable(np.zeros(2))
    optimizer = bps.DistributedOptimizer(keras.optimizers.SGD(1.0), op=bps.Sum)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(variable) * (rank + 1)
    # Gradients of a tape of the user's are combined when they are applied, once.
    optimizer.apply_gradients([(tape.gradient(loss, variable), variable)])
    assert (variable.numpy() == -total).all()
    optimizer.minimize(lambda: tf.reduce_sum(variable) * (rank + 1), [variable])
    assert (variable.numpy() == -2 * total).all()
    assert_raises(AttributeError, "--min-np", lambda: bps.elastic)


def check_local_variables(rank: int, size: int) -> None:
    """A rank keeps the gradients of its local variables, also where byteps.keras, which is for
    Keras 3, gets an optimizer of this Keras."""
    modules = [bps]
    if int(importlib.metadata.version("keras").partition(".")[0]) >= 3:
        modules.append(importlib.import_module("byteps.keras"))
    for module in modules:
        for kind in (keras.optimizers.SGD, keras.optimizers.legacy.SGD):
            for is_partial in (False, True):
                layer = keras.layers.Dense(3)
                model = keras.Sequential([keras.Input((4,)), layer, keras.layers.Dense(1)])
                model.set_weights([np.full(w.shape, 0.5) for w in model.get_weights()])
                if is_partial:
                    made = module.PartialDistributedOptimizer(kind(0.1), local_layers=layer)
                else:
                    made = module.DistributedOptimizer(kind(0.1))
                    for variable in layer.trainable_variables:
                        made.register_local_var(variable)
                assert isinstance(made, kind)
                model.compile(made, loss="mse")
                model.fit(np.full((4, 4), rank + 1.0), np.ones((4, 1)), verbose=0)
                everybody = bps.allgather_object([w.tolist() for w in model.get_weights()])
                for place in range(4):
                    seen = {str(weights[place]) for weights in everybody}
                    assert len(seen) == (size if place < 2 else 1), (kind, place, everybody)
        wrong = "an optimizer of Keras"
        assert_raises(ValueError, wrong, lambda m=module: m.PartialDistributedOptimizer("sgd"))


def check_mismatch(rank: int, size: int) -> None:
    if size == 1:
        return
    mine = slice(rank * ROWS, (rank + 1) * ROWS)

    def run(**way: Any) -> None:
        model = make_model(0, width=8 if rank == 0 else 4)
        optimizer = bps.DistributedOptimizer(keras.optimizers.SGD(0.1))
        train(model, optimizer, mine, ROWS, **way)

    for way in ({}, {"run_eagerly": True}):
        assert_raises(tf.errors.FailedPreconditionError, "kernel", lambda way=way: run(**way))
    assert_raises(ValueError, "byteps.keras", lambda: bps.DistributedOptimizer("sgd"))


def main() -> None:
    keras.backend.set_floatx("float64")
    bps.init()
    rank, size = bps.rank(), bps.size()
    for name, check in sorted(globals().items()):
        if name.startswith(f"check_{''.join(sys.argv[1:])}"):
            check(rank, size)
            bps.barrier(name=f"after {name}")
    bps.shutdown()
    print(f"all right {rank}/{size}")


main()
