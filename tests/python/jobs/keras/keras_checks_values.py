"""Checks of operations on values and variables, for all ranks."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "adapters"))

import disagreements
import keras
import numpy as np
from disagreements import Framework
from keras_checks import assert_raises, make_model

import byteps.keras as bps


def as_numpy(value):
    return keras.ops.convert_to_numpy(value)


def check_values_of_python(rank: int, size: int) -> None:
    assert bps.allreduce(float(rank), name="number") == (size - 1) / 2
    assert bps.push_pull(rank, name="sum", average=False) == size * (size - 1) // 2
    assert bps.broadcast(rank + 5, root_rank=size - 1, name="root") == size + 4
    gathered = bps.allgather([rank] * (rank + 1), name="list")
    assert gathered.tolist() == [r for r in range(size) for _ in range(r + 1)]
    assert isinstance(gathered, np.ndarray)
    double = bps.allreduce(np.full(3, 0.1, np.float64), name="double", op=bps.Sum)
    assert double.dtype == np.float64


def check_tensors(rank: int, size: int) -> None:
    tensor = keras.ops.convert_to_tensor(np.full((size, 2), rank, np.float32))
    total = size * (size - 1) / 2
    for result, value in (
        (bps.allreduce(tensor, name="t"), total / size),
        (bps.allreduce(tensor, name="t", op=bps.Sum), total),
        (bps.allreduce(tensor, name="t", op=bps.Max), size - 1),
        (bps.allreduce(tensor, name="t", op=bps.Sum, prescale_factor=0.5), total / 2),
        (bps.allreduce(tensor, name="t", compression=bps.Compression.fp16), total / size),
        (bps.push_pull(tensor, name="t", average=False), total),
        (bps.broadcast(tensor, root_rank=size - 1, name="t"), size - 1),
    ):
        assert keras.ops.is_tensor(result)
        assert (as_numpy(result) == np.float32(value)).all(), (value, result)
    mine = bps.reducescatter(tensor, name="scatter", op=bps.Sum)
    assert (as_numpy(mine) == np.full((1, 2), total)).all()
    rows = bps.allgather(tensor, name="gather")
    assert (as_numpy(rows)[:, 0] == np.repeat(np.arange(size), size)).all()
    rows = bps.alltoall(tensor, name="all")
    assert (as_numpy(rows)[:, 0] == np.arange(size)).all()


def check_variables(rank: int, size: int) -> None:
    variable = keras.Variable(np.full(3, rank, np.float32), name="counter")
    mean = bps.allreduce(variable, name="variable")
    assert (as_numpy(mean) == (size - 1) / 2).all()
    bps.broadcast_variables([variable], root_rank=size - 1)
    assert (as_numpy(variable) == size - 1).all()
    model = make_model(rank)
    bps.broadcast_variables(model.weights, root_rank=0)
    for one, other in zip(model.get_weights(), make_model(0).get_weights(), strict=True):
        assert (one == other).all()


def check_objects(rank: int, size: int) -> None:
    assert bps.broadcast_object({"rank": rank}, root_rank=0) == {"rank": 0}
    assert bps.allgather_object(rank) == list(range(size))


def check_what_does_not_exist(rank: int, size: int) -> None:
    assert_raises(RuntimeError, "broadcast_variables", lambda: bps.broadcast_global_variables(0))
    assert_raises(AttributeError, "--min-np", lambda: bps.elastic)
    assert_raises(AttributeError, "no attribute 'nothing'", lambda: bps.nothing)


KERAS = Framework(
    bps,
    ones=lambda shape, dtype: keras.ops.ones(shape, dtype),
    read=lambda result: [
        as_numpy(one).tolist() for one in (result if isinstance(result, tuple) else [result])
    ],
)
ARRAYS = replace(KERAS, ones=lambda shape, dtype: np.ones(shape, dtype))


def check_disagreements(rank: int, size: int) -> None:
    for kind in (KERAS, ARRAYS):
        disagreements.check(kind)


def check_mismatches(rank: int, size: int) -> None:
    if size == 1:
        return
    model = make_model(0, width=8 if rank == 0 else 4)
    assert_raises(
        bps.MismatchError, "", lambda: bps.broadcast_variables(model.weights, root_rank=0)
    )
