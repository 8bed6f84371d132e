"""A worker: trains with byteps.tensorflow.distribute, two devices in each process; it equals the
same training in one process without byteps."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import byteps.tensorflow as bps
from byteps.tensorflow.distribute import CrossDeviceOps, MirroredStrategy

DEVICES = ["CPU:0", "CPU:1"]
ROWS = 4  # of each device's batch
STEPS = 4


def check(name: str, mine: list[Any], alone: list[Any]) -> None:
    everybody = bps.allgather_object([one.tobytes() for one in mine], name=name)
    assert all(other == everybody[0] for other in everybody), name
    for one, other in zip(mine, alone, strict=True):
        assert one.dtype == np.float64
        assert abs(one - other).max() < 1e-12, (name, abs(one - other).max())


def make_model(seed: int) -> Any:
    tf.keras.utils.set_random_seed(seed)
    return tf.keras.Sequential(
        [
            tf.keras.Input((6,)),
            tf.keras.layers.Dense(8, activation="tanh", dtype="float64"),
            tf.keras.layers.Dense(1, dtype="float64"),
        ]
    )


def fit(strategy: Any, seed: int, mine: slice, rows: int) -> list[Any]:
    dice = np.random.default_rng(7)
    count = 2 * ROWS * bps.size()
    x = dice.normal(size=(STEPS, count, 6))[:, mine].reshape(-1, 6)
    y = dice.normal(size=(STEPS, count, 1))[:, mine].reshape(-1, 1)
    with strategy.scope():
        model = make_model(seed)
        model.compile(tf.keras.optimizers.SGD(0.1, momentum=0.9), loss="mse", jit_compile=False)
    if isinstance(strategy, MirroredStrategy):
        bps.broadcast_variables(model.variables, root_rank=0)
    model.fit(x, y, batch_size=rows, shuffle=False, verbose=0)
    return model.get_weights()


def check_fit(rank: int, size: int) -> None:
    rows = 2 * ROWS
    mine = fit(MirroredStrategy(DEVICES), rank, slice(rank * rows, (rank + 1) * rows), rows)
    alone = fit(tf.distribute.OneDeviceStrategy("CPU:0"), 0, slice(None), rows * size)
    check("fit", mine, alone)


def check_own_loop(rank: int, size: int) -> None:
    """The operation and the gradients of a loop of the user's."""
    ops = CrossDeviceOps(op=bps.Sum)
    strategy = tf.distribute.MirroredStrategy(DEVICES, cross_device_ops=ops)
    with strategy.scope():
        variable = tf.Variable(tf.ones([3], tf.float64))

    @tf.function
    def step() -> Any:
        def replica() -> Any:
            context = tf.distribute.get_replica_context()
            number = context.replica_id_in_sync_group
            return context.all_reduce(
                tf.distribute.ReduceOp.SUM, variable * tf.cast(number + 1 + 10 * rank, tf.float64)
            )

        return strategy.run(replica)

    for _ in range(2):
        for one in strategy.experimental_local_results(step()):
            assert (one.numpy() == 3 * size + 20 * size * (size - 1) / 2).all(), one


def main() -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    bps.init()
    rank, size = bps.rank(), bps.size()
    check_own_loop(rank, size)
    check_fit(rank, size)
    print(f"all right {rank}/{size}")
    bps.shutdown()


main()
