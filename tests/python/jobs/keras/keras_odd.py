"""A worker: every public function of byteps.keras, or of byteps.tensorflow.keras with the argument
keras2, with odd tensors, see odd.py.

Kernels that look where the memory of their inputs begins use each result. `ROWS` has a row for each
public function; test_keras_jobs.py compares it with the module.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "adapters"))

import keras_alone  # noqa: F401
import numpy as np
import odd
from odd import Case

Pairs = Iterable[tuple[Any, np.ndarray]]


class Keras:
    """Keras 3 with byteps.keras, or Keras 2 with byteps.tensorflow.keras."""

    def __init__(self, is_two: bool) -> None:
        self.keras: Any = importlib.import_module("tf_keras" if is_two else "keras")
        name = "byteps.tensorflow.keras" if is_two else "byteps.keras"
        self.bps: Any = importlib.import_module(name)
        self._is_two = is_two

    def tensor(self, array: np.ndarray) -> Any:
        if self._is_two:
            return importlib.import_module("tensorflow").convert_to_tensor(array)
        return self.keras.ops.convert_to_tensor(array)

    def variable(self, array: np.ndarray) -> Any:
        if self._is_two:
            return importlib.import_module("tensorflow").Variable(array)
        is_trained = array.dtype.kind == "f"  # torch refuses others
        return self.keras.Variable(array, dtype=str(array.dtype), trainable=is_trained)

    def use(self, name: str, result: Any, expected: np.ndarray) -> None:
        """Compare a result, after kernels have used it."""
        if isinstance(result, np.ndarray):
            assert result.ctypes.data % 64 == 0 or not result.size, name
        tensor = self.tensor(result)
        assert tuple(tensor.shape) == expected.shape, (name, tensor.shape, expected.shape)
        if expected.ndim:
            parts = [tensor[:1], tensor[1:]]
            if self._is_two:
                tensor = importlib.import_module("tensorflow").concat(parts, 0)
            else:
                tensor = self.keras.ops.concatenate(parts, 0)
        found = np.asarray(tensor if self._is_two else self.keras.ops.convert_to_numpy(tensor))
        assert found.tolist() == expected.tolist(), (name, found, expected)


def values(call: Callable[[Any, Case, Any], Any], expected: Callable[[Case], np.ndarray]) -> Any:
    """Return a row that gives a call tensors, variables, arrays and lists."""

    def row(my: Keras, case: Case) -> Pairs:
        mine = case.mine
        given = [my.tensor(mine), mine, my.tensor(mine)[1:], mine[1:]]
        wanted = [case, case, Shorter(case), Shorter(case)]
        if case.is_floating:
            given.append(my.variable(mine))
            wanted.append(case)
        if case.kind == "int64":  # of numbers in lists
            given.append(mine.tolist())
            wanted.append(case)
        for value, one in zip(given, wanted, strict=True):
            if isinstance(value, list) and not value:
                continue  # a list says nothing of its type
            yield call(my.bps, one, value), expected(one)

    return row


class Shorter(Case):
    """A case without the first row."""

    def __init__(self, case: Case) -> None:
        self.rank, self.size, self.kind = case.rank, case.size, case.kind
        self.parts = [part[1:] for part in case.parts]
        self.shape = self.parts[0].shape


def objects_of_all(my: Keras, case: Case) -> Pairs:
    for found, part in zip(my.bps.allgather_object(case.mine), case.parts, strict=True):
        yield my.tensor(found), part


def object_of_root(my: Keras, case: Case) -> Pairs:
    yield my.tensor(my.bps.broadcast_object(case.mine, root_rank=0)), case.parts[0]


def root_variables(my: Keras, case: Case) -> Pairs:
    variables = [my.variable(case.mine), my.variable(case.mine[1:])]
    my.bps.broadcast_variables(variables, root_rank=0)
    yield variables[0], case.parts[0]
    yield variables[1], case.parts[0][1:]


def compressed(my: Keras, case: Case) -> Pairs:
    kind = my.bps.Compression.fp16
    yield my.bps.allreduce(my.tensor(case.mine), op=my.bps.Sum, compression=kind), case.total


def _stepped(my: Keras, case: Case, made: Any) -> Pairs:
    variables = [my.variable(np.zeros(case.shape, case.kind)) for _ in "ab"]
    if hasattr(made, "build"):
        made.build(variables)
    gradients = [my.tensor(case.mine) for _ in variables]
    made.apply_gradients(list(zip(gradients, variables, strict=True)))
    for variable in variables:
        yield variable, -case.total


def optimizers(my: Keras, case: Case) -> Pairs:
    if case.kind != "float32":
        return
    stock = my.keras.optimizers.SGD(1.0)
    yield from _stepped(my, case, my.bps.DistributedOptimizer(stock, op=my.bps.Sum))
    made = my.bps.DistributedOptimizer(my.keras.optimizers.SGD(1.0), op=my.bps.Sum)
    own = my.variable(np.zeros(case.shape, case.kind))
    made.register_local_var(own)
    if hasattr(made, "build"):
        made.build([own])
    made.apply_gradients([(my.tensor(case.mine), own)])
    yield own, -case.mine / np.float32(case.size)


def partial_optimizers(my: Keras, case: Case) -> Pairs:
    if case.kind != "float32":
        return
    stock = my.keras.optimizers.SGD(1.0)
    made = my.bps.PartialDistributedOptimizer(stock, op=my.bps.Sum, local_layers=[])
    yield from _stepped(my, case, made)


def _fitted(my: Keras, case: Case, callbacks: list[Any]) -> Any:
    """Return a model of odd layers that was trained on odd batches."""
    layers = my.keras.layers
    model = my.keras.Sequential([my.keras.Input((3,)), layers.Dense(7), layers.Dense(1)])
    stock = my.keras.optimizers.SGD(0.01, momentum=0.9)
    model.compile(my.bps.DistributedOptimizer(stock), loss="mse")
    x = np.ones((17, 3), np.float32) * (case.rank + 1)
    model.fit(x, x[:, :1], batch_size=5, verbose=0, callbacks=callbacks)
    return model


def callbacks(my: Keras, case: Case) -> Pairs:
    """All callbacks, once."""
    if case.kind != "float32" or case.shape != (17,):
        return
    kinds = my.bps.callbacks
    with tempfile.TemporaryDirectory() as folder:
        made = {
            "BroadcastGlobalVariablesCallback": kinds.BroadcastGlobalVariablesCallback(0),
            "MetricAverageCallback": kinds.MetricAverageCallback(),
            "LearningRateWarmupCallback": kinds.LearningRateWarmupCallback(0.01, 1),
            "LearningRateScheduleCallback": kinds.LearningRateScheduleCallback(0.01, 0.5, 1),
            "BestModelCheckpoint": kinds.BestModelCheckpoint(
                monitor="loss", filepath=str(Path(folder) / "best.keras")
            ),
        }
        assert {*made} == {*kinds.__all__}
        model = _fitted(my, case, list(made.values()))
    roots = my.bps.broadcast_object(model.get_weights())
    for mine, root in zip(model.get_weights(), roots, strict=True):
        yield my.tensor(mine), root


def loaded(my: Keras, case: Case) -> Pairs:
    if case.kind != "float32" or case.shape != (17,):
        return
    model = _fitted(my, case, [])
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.keras")
        model.save(path)
        again = my.bps.load_model(path)
    for one, other in zip(model.get_weights(), again.get_weights(), strict=True):
        yield my.tensor(other), one
    again.fit(np.ones((5, 3), np.float32), np.ones((5, 1), np.float32), verbose=0)
    assert hasattr(again.optimizer, "byteps_settings")


def _sum(bps: Any, case: Case, value: Any) -> Any:
    return bps.allreduce(value, op=bps.Sum)


ROWS: dict[str, Callable[[Keras, Case], Pairs]] = {
    "Compression": compressed,
    "DistributedOptimizer": optimizers,
    "PartialDistributedOptimizer": partial_optimizers,
    "allgather": values(lambda bps, case, value: bps.allgather(value), lambda case: case.joined),
    "allgather_object": objects_of_all,
    "allreduce": values(_sum, lambda case: case.total),
    "alltoall": values(
        lambda bps, case, value: bps.alltoall(value, splits=case.splits)[0],
        lambda case: case.received,
    ),
    "broadcast": values(
        lambda bps, case, value: bps.broadcast(value, root_rank=0), lambda case: case.parts[0]
    ),
    "broadcast_object": object_of_root,
    "broadcast_variables": root_variables,
    "callbacks": callbacks,
    "load_model": loaded,
    "push_pull": values(
        lambda bps, case, value: bps.push_pull(value, name="pushed", average=False),
        lambda case: case.total,
    ),
    "reducescatter": values(
        lambda bps, case, value: bps.reducescatter(value, op=bps.Sum),
        lambda case: case.own_rows_of_total,
    ),
}
# What takes no tensor and gives none.
WITHOUT_TENSORS = {"barrier", "broadcast_global_variables", "join", "typed_errors"}


def main() -> None:
    my = Keras("keras2" in sys.argv)
    my.bps.init()
    rank, size = my.bps.rank(), my.bps.size()
    # JAX compiles each kernel for each shape.
    for case in odd.cases(rank, size, ((17,), (5001,), (0, 3)), ("uint8", "float32", "int64")):
        for name, row in ROWS.items():
            for result, expected in row(my, case):
                my.use(f"{name} {case}", result, expected)
    my.bps.shutdown()
    print(f"all right {rank}/{size}")


if __name__ == "__main__":
    main()
