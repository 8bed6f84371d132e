"""A worker: every function of an adapter on arrays of odd sizes, at odd addresses, and without
elements; a kernel that looks at its memory reads each result.

    odd_arrays.py numpy|jax|mxnet

ROWS has a check for each public function that takes arrays; tests compare it with `__all__`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.append(str(Path(__file__).resolve().parents[1] / "mxnet"))

from random_collectives.layouts import Laid

SHAPES = ((17,), (1,), (0,), (3, 5), (0, 4), (67, 3), (1025,))
TYPES = ("uint8", "float32", "float64", "float16", "int64")
# Where frameworks take memory over, it begins at such multiples.
ALIGNMENT = 64
# Public names that take no arrays, beside those that all adapters have (byteps.common.basics).
WITHOUT_ARRAYS = {
    "numpy": {"barrier", "join", "members_of", "poll"},
    "jax": {"Compression", "Compressor", "barrier", "error_of", "join", "typed_errors"},
    "mxnet": {"Compression", "Compressor", "barrier", "byteps_declare_tensor", "join"},
}


class Frame:
    """What an adapter's arrays are made of, and how their results are read."""

    layouts: tuple[str, ...] = ("plain",)

    def __init__(self, name: str) -> None:
        self.name = name
        self.bps = importlib.import_module(f"byteps.{name}")
        self.count = 0

    def make(self, values: np.ndarray, layout: str) -> Any:
        """Return an array of the framework."""
        raise NotImplementedError

    def read(self, result: Any) -> np.ndarray:
        """Return the values of a result that a kernel has read."""
        raise NotImplementedError

    def named(self, what: str) -> str:
        """Return a name that no call had."""
        self.count += 1
        return f"{what} {self.count}"

    def mine(self, rows: int | None = None) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield values, and arrays with them: of each shape, type and layout; of `rows` rows."""
        for shape in SHAPES:
            if rows is not None:
                shape = (rows, *shape[1:])
            for place, dtype in enumerate(TYPES):
                values = (np.arange(np.prod(shape, dtype=int)) % 50).reshape(shape).astype(dtype)
                yield values, self.make(values, self.layouts[place % len(self.layouts)])


class Numpy(Frame):
    """byteps.numpy: results are where JAX and TensorFlow take them over."""

    layouts = ("unaligned", "offset", "strided", "reversed", "transposed")

    def make(self, values: np.ndarray, layout: str) -> Any:
        return Laid.of(values, layout).view

    def read(self, result: Any) -> np.ndarray:
        assert result.ctypes.data % ALIGNMENT == 0, hex(result.ctypes.data)
        return np.from_dlpack(result)


class Jax(Frame):
    """byteps.jax: a compiled kernel of XLA reads each result in its own memory."""

    layouts = ("unaligned", "offset", "plain")

    def __init__(self, name: str) -> None:
        import jax

        jax.config.update("jax_enable_x64", True)
        super().__init__(name)
        self._jax = jax
        self._kernel = jax.jit(lambda x: x + x.dtype.type(0))

    def make(self, values: np.ndarray, layout: str) -> Any:
        view = Laid.of(values, layout).view
        # An array over memory of numpy, where JAX takes it as it is.
        return self._jax.numpy.asarray(view)

    def read(self, result: Any) -> np.ndarray:
        assert isinstance(result, self._jax.Array)
        assert result.unsafe_buffer_pointer() % ALIGNMENT == 0
        shared = self._jax.dlpack.from_dlpack(result) if result.size else result
        return np.asarray(self._kernel(shared))


class Mxnet(Frame):
    """byteps.mxnet: operations of MXNet read each result."""

    layouts = ("unaligned", "offset", "plain")

    def __init__(self, name: str) -> None:
        import old_numpy  # noqa: F401

        super().__init__(name)
        mx = importlib.import_module("mxnet")
        mx.util.set_np_shape(True)  # else MXNet has no arrays without elements
        self._nd = mx.nd

    def make(self, values: np.ndarray, layout: str) -> Any:
        if not values.size:
            return self._nd.zeros(values.shape, dtype=values.dtype)
        return self._nd.array(Laid.of(values, layout).view, dtype=values.dtype)

    def read(self, result: Any) -> np.ndarray:
        if result.size:
            result = self._nd.concat(result, result, dim=0)
            result = self._nd.slice_axis(result, axis=0, begin=0, end=result.shape[0] // 2)
        return result.asnumpy()


def expect(frame: Frame, result: Any, wanted: np.ndarray) -> None:
    """Hold a result against what it must be."""
    found = frame.read(result)
    assert found.dtype == wanted.dtype, (found.dtype, wanted.dtype)
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    assert (found == wanted).all()


def of_same_shape(function: str, **options: Any) -> Callable[[Frame], None]:
    """Check a function whose result is its input, if all ranks have the same."""

    def check(frame: Frame) -> None:
        for values, array in frame.mine():
            call = getattr(frame.bps, function)
            result = call(array, name=frame.named(function), **options)
            if "_async" in function:
                result = frame.bps.synchronize(result)
            is_overwritten = function.endswith(("_", "inplace"))
            if is_overwritten:
                result = frame.make(values * 0 + np.asarray(_plain(array)), "plain")
                assert (np.asarray(_plain(array)) == values).all()
                continue
            expect(frame, result, values)

    return check


def _plain(array: Any) -> np.ndarray:
    return array.asnumpy() if hasattr(array, "asnumpy") else array


def of_groups(function: str, rows: Callable[[np.ndarray, int, int], np.ndarray]) -> Any:
    """Check a function of several arrays at once."""

    def check(frame: Frame) -> None:
        rank, size = frame.bps.rank(), frame.bps.size()
        pairs = list(frame.mine(5 if "scatter" in function else None))
        call = getattr(frame.bps, function)
        result = call([array for _, array in pairs], name=frame.named(function))
        if "_async" in function:
            result = frame.bps.synchronize(result)
        if function.endswith("_"):
            assert all((np.asarray(_plain(a)) == v).all() for v, a in pairs)
            return
        for (values, _), found in zip(pairs, result, strict=True):
            expect(frame, found, rows(values, rank, size))

    return check


def of_rows(function: str, rows: Callable[[np.ndarray, int, int], np.ndarray], count: int) -> Any:
    """Check a function whose result has other rows; `count` rows for each rank, or as they come."""

    def check(frame: Frame) -> None:
        rank, size = frame.bps.rank(), frame.bps.size()
        for values, array in frame.mine(count * size if count else None):
            result = getattr(frame.bps, function)(array, name=frame.named(function))
            if "_async" in function:
                result = frame.bps.synchronize(result)
                result = result[0] if function == "alltoall_async" else result
            expect(frame, result, rows(values, rank, size))

    return check


def _same(values: np.ndarray, rank: int, size: int) -> np.ndarray:
    return values


def _joined(values: np.ndarray, rank: int, size: int) -> np.ndarray:
    return np.concatenate([values] * size)


def _dealt(values: np.ndarray, rank: int, size: int) -> np.ndarray:
    rows = len(values) // size
    return np.concatenate([values[rank * rows : (rank + 1) * rows]] * size)


def _part(values: np.ndarray, rank: int, size: int) -> np.ndarray:
    return np.array_split(values, size)[rank]


def check_objects(frame: Frame) -> None:
    for values, _ in frame.mine():
        copied = frame.bps.broadcast_object(values, 0)
        (first, *_) = frame.bps.allgather_object(values)
        for found in (copied, first):
            assert found.shape == values.shape
            assert (found == values).all()


def check_broadcast_parameters(frame: Frame) -> None:
    pairs = list(frame.mine())
    given = {f"{frame.named('w')}": array for _, array in pairs}
    result = frame.bps.broadcast_parameters(given, root_rank=0) or given
    for (values, _), found in zip(pairs, result.values(), strict=True):
        if frame.name == "numpy":  # overwritten where they are
            assert (found == values).all()
        else:
            expect(frame, found, values)


def check_check_replicas(frame: Frame) -> None:
    frame.bps.check_replicas({str(i): array for i, (_, array) in enumerate(frame.mine())})


def check_empty_shared(frame: Frame) -> None:
    for shape in SHAPES:
        array = frame.bps.empty_shared(shape, np.float32)
        assert array.shape == shape
        array[...] = 3
        assert not array.size or array.ctypes.data % ALIGNMENT == 0
        expect(frame, frame.bps.allreduce(array, name=frame.named("shared")), array)


def check_synchronize(frame: Frame) -> None:
    for values, array in frame.mine():
        handle = frame.bps.push_pull_async(array, name=frame.named("handle"))
        expect(frame, frame.bps.synchronize(handle), values)


def check_push_pull_start(frame: Frame) -> None:
    for values, array in frame.mine():
        pending = frame.bps.push_pull_start(array, name=frame.named("pending"))
        expect(frame, frame.bps.push_pull_done(pending), values)


def check_byteps_push_pull(frame: Frame) -> None:
    for values, array in frame.mine():
        frame.bps.byteps_push_pull(array, is_average=True, name=frame.named("in place"))
        expect(frame, array, values)


def check_optimizer_of_jax(frame: Frame) -> None:
    import optax

    optimizer = frame.bps.DistributedOptimizer(optax.sgd(1.0))
    for values, array in frame.mine():
        if values.dtype.kind == "f":
            updates, _ = optimizer.update(array, optimizer.init(array), array)
            expect(frame, updates, -values)


def check_optimizers_of_mxnet(frame: Frame) -> None:
    import mxnet as mx

    for shape in ((17,), (1,), (67, 3)):
        optimizer = frame.bps.DistributedOptimizer(mx.optimizer.create("sgd", learning_rate=1.0))
        weight, gradient = mx.nd.ones(shape), mx.nd.full(shape, 0.25)
        optimizer.update(0, weight, gradient, optimizer.create_state(0, weight))
        expect(frame, weight, np.full(shape, 0.75, np.float32))


def check_trainer_of_mxnet(frame: Frame) -> None:
    import mxnet as mx

    net = mx.gluon.nn.Dense(3, in_units=5)
    net.initialize(mx.init.One())
    trainer = frame.bps.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    with mx.autograd.record():
        loss = net(mx.nd.ones((7, 5))).sum()
    loss.backward()
    trainer.step(7)
    expect(frame, net.weight.data(), np.zeros((3, 5), np.float32))


_COMMON = {
    "allreduce": of_same_shape("allreduce"),
    "broadcast": of_same_shape("broadcast", root_rank=0),
    "allgather": of_rows("allgather", _joined, 0),
    "alltoall": of_rows("alltoall", _dealt, 3),
    "reducescatter": of_rows("reducescatter", _part, 0),
    "grouped_allreduce": of_groups("grouped_allreduce", _same),
    "grouped_allgather": of_groups("grouped_allgather", _joined),
    "grouped_reducescatter": of_groups("grouped_reducescatter", _part),
    "broadcast_object": check_objects,
    "allgather_object": check_objects,
    "broadcast_parameters": check_broadcast_parameters,
    "check_replicas": check_check_replicas,
}
ROWS: dict[str, dict[str, Callable[[Frame], None]]] = {
    "numpy": {
        **_COMMON,
        **{name: of_same_shape(name) for name in ("push_pull", "push_pull_async")},
        **{name: of_same_shape(name) for name in ("push_pull_inplace", "push_pull_async_inplace")},
        **{name: of_same_shape(name) for name in ("allreduce_", "allreduce_async")},
        "allreduce_async_": of_same_shape("allreduce_async_"),
        "broadcast_": of_same_shape("broadcast_", root_rank=0),
        "broadcast_async": of_same_shape("broadcast_async", root_rank=0),
        "broadcast_async_": of_same_shape("broadcast_async_", root_rank=0),
        "allgather_async": of_rows("allgather_async", _joined, 0),
        "alltoall_async": of_rows("alltoall_async", _dealt, 3),
        "reducescatter_async": of_rows("reducescatter_async", _part, 0),
        "grouped_allreduce_": of_groups("grouped_allreduce_", _same),
        "grouped_allreduce_async": of_groups("grouped_allreduce_async", _same),
        "grouped_allreduce_async_": of_groups("grouped_allreduce_async_", _same),
        "grouped_allgather_async": of_groups("grouped_allgather_async", _joined),
        "grouped_reducescatter_async": of_groups("grouped_reducescatter_async", _part),
        "empty_shared": check_empty_shared,
        "synchronize": check_synchronize,
    },
    "jax": {
        **_COMMON,
        "push_pull": of_same_shape("push_pull"),
        "push_pull_start": check_push_pull_start,
        "push_pull_done": check_push_pull_start,
        "DistributedOptimizer": check_optimizer_of_jax,
    },
    "mxnet": {
        **_COMMON,
        "allreduce_": of_same_shape("allreduce_"),
        "broadcast_": of_same_shape("broadcast_", root_rank=0),
        "grouped_allreduce_": of_groups("grouped_allreduce_", _same),
        "byteps_push_pull": check_byteps_push_pull,
        "DistributedOptimizer": check_optimizers_of_mxnet,
        "DistributedTrainer": check_trainer_of_mxnet,
    },
}
FRAMES: dict[str, type[Frame]] = {"numpy": Numpy, "jax": Jax, "mxnet": Mxnet}


def names_without_row(adapter: str) -> set[str]:
    """Return the public names that nothing here checks, and rows of names that are not public."""
    if adapter == "mxnet":
        import old_numpy  # noqa: F401
    from byteps.common import basics

    public = set(importlib.import_module(f"byteps.{adapter}").__all__) - set(basics.__all__)
    return public ^ (set(ROWS[adapter]) | WITHOUT_ARRAYS[adapter])


def main() -> None:
    frame = FRAMES[sys.argv[1]](sys.argv[1])
    frame.bps.init()
    for name, check in ROWS[frame.name].items():
        try:
            check(frame)
        except Exception as error:
            raise AssertionError(f"byteps.{frame.name}.{name}") from error
    rank, size = frame.bps.rank(), frame.bps.size()
    frame.bps.barrier()
    frame.bps.shutdown()
    print(f"all right {rank}/{size}")


if __name__ == "__main__":
    main()
