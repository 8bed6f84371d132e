"""A worker: every operation of byteps.tensorflow, eager, in tf.function and in a graph with a
session, with known results."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.append(str(Path(__file__).resolve().parents[1] / "adapters"))

import disagreements
import numpy as np
import tensorflow as tf
from disagreements import Framework, as_it_is

import byteps.tensorflow as bps
from byteps.tensorflow.errors import tensorflow_error

SUMMED = ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8")
MOVED = (*SUMMED, "uint16", "bool")


def refused(kinds: Any, word: str, call: Callable[[], object]) -> None:
    """Expect an error of some kinds, with a word in its text."""
    text = ""
    try:
        call()
    except kinds as error:
        text = str(error)
    assert word in text, f"{word} is not in {text!r}"


def values(results: Any) -> list[Any]:
    return [np.asarray(one) for one in tf.nest.flatten(results)]


def in_session(call: Callable[..., Any], arrays: list[Any], types: list[Any]) -> list[Any]:
    with tf.Graph().as_default():
        pairs = zip(arrays, types, strict=True)
        places = [tf.compat.v1.placeholder(kind, a.shape) for a, kind in pairs]
        wanted = tf.nest.flatten(call(*places))
        with tf.compat.v1.Session() as session:
            return session.run(wanted, dict(zip(places, arrays, strict=True)))


def everywhere(name: str, call: Callable[..., Any], *tensors: Any) -> Any:
    """Return what a call results in, which must be the same eagerly and in graphs."""
    outside = call(*tensors, name=name)
    compiled = tf.function(partial(call, name=f"{name} compiled"))
    ways = [values(compiled(*tensors)), values(compiled(*tensors))]
    arrays, types = [tensor.numpy() for tensor in tensors], [tensor.dtype for tensor in tensors]
    ways.append(in_session(partial(call, name=f"{name} in a graph"), arrays, types))
    ways.append(values(tf.function(lambda *given: call(*given))(*tensors)))
    for inside in ways:
        for one, other in zip(values(outside), inside, strict=True):
            assert one.dtype == other.dtype, (name, one.dtype, other.dtype)
            assert one.shape == other.shape, (name, one.shape, other.shape)
            assert one.tolist() == other.tolist(), (name, one, other)
    return outside


def check_types(rank: int, size: int) -> None:
    for kind in SUMMED:
        mine = tf.cast(tf.fill([3, 2], rank + 1), kind)
        total = everywhere(f"sum {kind}", partial(bps.allreduce, op=bps.Sum), mine)
        assert total.dtype == kind
        assert (values(total)[0] == size * (size + 1) // 2).all()
    for kind in MOVED:
        mine = tf.cast(tf.fill([3, 2], rank), kind)
        rows = everywhere(f"rows {kind}", bps.allgather, mine)
        one = values(tf.cast(tf.range(size), kind))[0]
        assert values(rows)[0][:, 0].tolist() == [value for value in one for _ in range(3)]
        copied = everywhere(f"copy {kind}", partial(bps.broadcast, root_rank=size - 1), mine)
        assert (values(copied)[0] == one[-1]).all()
    ragged = tf.ragged.constant([[1.0], []])
    refused(tf.errors.InvalidArgumentError, "flat_values", lambda: bps.allreduce(ragged))
    refused(
        tf.errors.InvalidArgumentError, "complex64", lambda: bps.allreduce(tf.complex(1.0, 1.0))
    )
    refused(tf.errors.InvalidArgumentError, "string", lambda: bps.allgather(tf.constant(["a"])))


def check_combinations(rank: int, size: int) -> None:
    mine = tf.constant([rank, -rank, 1.5])
    mean = everywhere("mean", bps.allreduce, mine)
    assert np.allclose(mean, [(size - 1) / 2, (1 - size) / 2, 1.5])
    largest = everywhere("largest", partial(bps.allreduce, op=bps.Max), mine)
    assert largest.numpy().tolist() == [size - 1, 0, 1.5]
    least = everywhere("least", partial(bps.allreduce, op=bps.Min), mine)
    assert least.numpy().tolist() == [0, 1 - size, 1.5]
    product = everywhere(
        "product", partial(bps.allreduce, op=bps.Product), tf.constant([2, rank + 1])
    )
    assert product.numpy().tolist() == [2**size, int(np.prod(np.arange(1, size + 1)))]
    assert everywhere("pushed", bps.push_pull, mine).numpy().tolist() == mean.numpy().tolist()
    total = everywhere("pushed sum", partial(bps.push_pull, op=bps.Sum), mine)
    assert total.numpy().tolist() == [size * (size - 1) / 2, -size * (size - 1) / 2, 1.5 * size]
    assert bps.allreduce(tf.Variable(2.0), name="variable").numpy() == 2.0
    assert everywhere("nothing", bps.allreduce, tf.zeros([0, 3])).shape == (0, 3)


def check_averages_of_integers(rank: int, size: int) -> None:
    total = -3 * size - size * (size - 1) // 2
    cut = int(total / size)
    for kind in ("int8", "int16", "int32", "int64"):
        mine = tf.constant([-3 - rank, 3 + rank, -size], kind)
        found = everywhere(f"cut {kind}", bps.allreduce, mine)
        assert found.numpy().tolist() == [cut, -cut, -size]
        found = everywhere(f"down {kind}", bps.push_pull, mine)
        assert found.numpy().tolist() == [total // size, -total // size, -size]


def check_factors(rank: int, size: int) -> None:
    options = {"op": bps.Sum, "prescale_factor": 0.5, "postscale_factor": 3.0}
    for kind in ("float32", "float16", "bfloat16", "int32"):
        mine = tf.cast(tf.fill([4], 2), kind)
        found = everywhere(f"scaled {kind}", partial(bps.allreduce, **options), mine)
        assert found.dtype == kind
        assert (values(found)[0] == 3 * size).all()
    call = partial(bps.allreduce, name="bool", prescale_factor=2.0)
    refused(tf.errors.InvalidArgumentError, "scaled", lambda: call(tf.constant([True])))
    half = bps.allreduce(tf.fill([3], float(rank)), name="half", compression=bps.Compression.fp16)
    assert half.dtype == tf.float32
    assert (values(half)[0] == (size - 1) / 2).all()


def check_groups(rank: int, size: int) -> None:
    one, two = tf.fill([3], float(rank)), tf.constant([rank, 1])

    def call(*tensors: Any, name: str | None = None) -> Any:
        return bps.grouped_allreduce(list(tensors), op=bps.Sum, name=name)

    found = everywhere("group", call, one, two)
    assert found[0].numpy().tolist() == [size * (size - 1) / 2] * 3
    assert found[1].numpy().tolist() == [size * (size - 1) // 2, size]
    assert bps.grouped_allreduce([]) == []
    rows = bps.grouped_allgather([one, two], name="rows")
    assert [len(row) for row in rows] == [3 * size, 2 * size]
    parts = bps.grouped_reducescatter([tf.ones([size]), tf.ones([2 * size])], op=bps.Sum)
    assert [part.numpy().tolist() for part in parts] == [[size], [size, size]]


def check_rows(rank: int, size: int) -> None:
    uneven = everywhere("uneven", bps.allgather, tf.fill([rank, 2], float(rank)))
    assert uneven.numpy()[:, 0].tolist() == [r for r in range(size) for _ in range(r)]
    numbers = everywhere("numbers", bps.allgather, tf.constant(rank))
    assert numbers.numpy().tolist() == list(range(size))
    unknown = tf.function(bps.allgather, input_signature=[tf.TensorSpec(None, tf.int32)])
    assert unknown(tf.constant(rank)).numpy().tolist() == list(range(size))
    mine = tf.range(2.0 * size) + 100.0 * rank
    rows = everywhere("alltoall", bps.alltoall, mine)
    assert rows.numpy().tolist() == [100 * r + 2 * rank + i for r in range(size) for i in range(2)]
    splits = [1] * (size - 1) + [size + 1]
    _, counts = everywhere("splits", partial(bps.alltoall, splits=splits), mine)
    assert counts.numpy().tolist() == [splits[rank]] * size
    dealt = everywhere("dealt", partial(bps.reducescatter, op=bps.Sum), tf.ones([size + 1, 2]))
    assert dealt.numpy().tolist() == [[size, size]] * (2 if rank == 0 else 1)


def check_slices(rank: int, size: int) -> None:
    mine = tf.IndexedSlices(tf.fill([2, 3], rank + 1), tf.constant([rank, 0]), tf.constant([9, 3]))
    for call in (bps.allreduce, tf.function(bps.allreduce)):
        found = call(mine)
        assert found.values.dtype == tf.float64
        assert found.indices.numpy().tolist() == [i for r in range(size) for i in (r, 0)]
        assert found.values.numpy()[:, 0].tolist() == [
            (r + 1) / size for r in range(size) for _ in "ab"
        ]
    refused(NotImplementedError, "Max", lambda: bps.allreduce(mine, op=bps.Max))
    lists = tf.IndexedSlices([[1.0, 2.0]], [rank], [9, 2])
    for given in (mine, lists):
        for group in ([tf.ones(2), given], [given, tf.ones(2)], [given]):
            sums = partial(bps.grouped_allreduce, group)
            for way in (partial(sums, op=bps.Sum), tf.function(partial(sums, op=bps.Sum))):
                for one, found in zip(group, way(), strict=True):
                    assert isinstance(found, type(one) if one is given else tf.Tensor)
                    if one is given:
                        assert len(found.values) == len(found.indices) == size * len(one.indices)
                    else:
                        assert found.numpy().tolist() == [size, size]
            # Before anything is looked at or sent: on all ranks alike.
            for op in (bps.Min, bps.Max, bps.Product, bps.Adasum):
                refused(NotImplementedError, "op=Average", partial(sums, op=op))
            refused(NotImplementedError, "scale", partial(sums, postscale_factor=2.0))
            refused(ValueError, "must be one of", partial(sums, op="sum"))


def check_groups_that_differ(rank: int, size: int) -> None:
    """A rank that has more tensors than the others does not wait for these in vain."""
    if size == 1:
        return
    count = 3 if rank == 0 else 2
    variables = [tf.Variable(tf.ones(3)) for _ in range(3)]

    def gradients() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(one * one) for one in variables[:count]])
        found = bps.DistributedGradientTape(tape).gradient(loss, variables)
        return [one for one in found if one is not None]

    def broadcast_in_a_graph() -> None:
        with tf.Graph().as_default():
            for i in range(count):
                tf.compat.v1.get_variable(f"odd_{i}", [2])
            send = bps.broadcast_global_variables(0)
            with tf.compat.v1.Session() as session:
                session.run(tf.compat.v1.global_variables_initializer())
                session.run(send)

    refused(tf.errors.FailedPreconditionError, "3 tensors", broadcast_in_a_graph)
    calls: dict[str, Callable[[], Any]] = {"gradients": gradients}
    for call in (bps.grouped_allreduce, bps.grouped_allgather, bps.grouped_reducescatter):
        calls[call.__name__] = partial(call, [tf.ones([size])] * count, name="odd group")
    for call in calls.values():
        for way in (call, tf.function(call)):
            refused(tf.errors.FailedPreconditionError, "3 tensors", way)
    count = 3
    for way in (gradients, tf.function(gradients)):
        assert [one.numpy().tolist() for one in way()] == [[2.0] * 3] * 3


def check_tensors_from_outside(rank: int, size: int) -> None:
    """Ranks pair what a tf.function takes from outside, whatever they have made before."""
    other = tf.constant(1.0)
    for _ in range(rank):
        tf.function(lambda: other + 1)()
    tensors = [tf.constant([float(i)]) for i in range(4)]

    @tf.function
    def sums() -> list[Any]:
        return [bps.allreduce(tensor, op=bps.Sum) for tensor in tensors]

    assert [one.tolist() for one in values(sums())] == [[size * i] for i in range(4)]


def check_gradients(rank: int, size: int) -> None:
    place = tf.constant(np.arange(2.0 * size))
    options = {"prescale_factor": 0.5, "postscale_factor": 4.0}
    cases: dict[str, tuple[Callable[[Any], Any], Any]] = {
        "average": (bps.allreduce, 1.0),
        "sum": (partial(bps.allreduce, op=bps.Sum), float(size)),
        "factors": (partial(bps.allreduce, op=bps.Sum, **options), 2.0 * size),
        "push_pull": (bps.push_pull, 1.0),
        "allgather": (bps.allgather, 1.0),
        "broadcast": (partial(bps.broadcast, root_rank=0), 1.0 if rank == 0 else 0.0),
        "alltoall": (bps.alltoall, 1.0),
        "scatter": (partial(bps.reducescatter, op=bps.Sum), float(size)),
        "scattered mean": (bps.reducescatter, 1.0),
    }
    for name, (call, expected) in cases.items():

        def gradient(x: Any, call: Callable[[Any], Any] = call, name: str = name) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                found = tf.reduce_sum(call(x, name=f"gradient of {name}"))
            return tape.gradient(found, x)

        for way in (gradient, tf.function(gradient)):
            assert way(place).numpy().tolist() == [expected] * (2 * size), (name, way(place))

    def second(x: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                found = tf.reduce_sum(bps.allreduce(x, name="cube") ** 3)
            first = inner.gradient(found, x)
        return outer.gradient(first, x)

    for way in (second, tf.function(second)):
        assert np.allclose(way(place), 6 * np.arange(2.0 * size))


def check_control_flow(rank: int, size: int) -> None:
    @tf.function
    def loop(x: Any) -> Any:
        total = tf.zeros_like(x)
        for _ in tf.range(5):
            total = bps.allreduce(total + x, op=bps.Sum) / size
        return tf.cond(tf.reduce_sum(x) > -1.0, lambda: bps.allreduce(total), lambda: total)

    assert np.allclose(loop(tf.ones([3]) * rank), 5 * (size - 1) / 2)


def check_numbers(rank: int, size: int) -> None:
    asked = (bps.rank_op, bps.size_op, bps.local_rank_op, bps.local_size_op)
    eager = [int(call()) for call in asked]
    assert eager[:2] == [rank, size]
    assert [int(one) for one in tf.function(lambda: [call() for call in asked])()] == eager
    assert int(bps.size_op(77)) == int(bps.process_set_included_op(77)) == -3
    assert int(tf.function(lambda: bps.process_set_included_op(0))()) == 1


def check_sets(rank: int, size: int) -> None:
    if size < 3:  # a pair would be all ranks
        return
    pair = bps.add_process_set([0, size - 1])
    assert int(bps.size_op(pair.process_set_id)) == 2
    assert bool(int(bps.process_set_included_op(pair.process_set_id))) == pair.included()
    call = partial(bps.allreduce, op=bps.Sum, process_set=pair)
    if pair.included():
        total = everywhere("in a set", call, tf.constant([float(rank)]))
        assert total.numpy().tolist() == [size - 1]
        root = partial(bps.broadcast, root_rank=size - 1, process_set=pair)
        assert everywhere("root", root, tf.constant(rank)).numpy() == size - 1
        gradient = everywhere("set", partial(bps.allgather, process_set=pair), tf.fill([rank], 1.0))
        assert len(gradient) == size - 1
    else:
        refused(tf.errors.InvalidArgumentError, "not in", lambda: call(tf.ones(1)))
        refused(tf.errors.InvalidArgumentError, "not in", lambda: tf.function(call)(tf.ones(1)))
    bps.barrier()
    assert bps.remove_process_set(pair)


def in_graph(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(tensor: Any) -> Any:
        return in_session(function, [tensor.numpy()], [tensor.dtype])

    return run


TENSORFLOW = Framework(
    bps,
    ones=lambda shape, dtype: tf.ones(shape, dtype),
    read=lambda result: [one.tolist() for one in values(result)],
    kinds={
        bps.MismatchError: tf.errors.FailedPreconditionError,
        bps.OutOfStepError: tf.errors.FailedPreconditionError,
        bps.InvalidArgumentError: tf.errors.InvalidArgumentError,
        bps.DeadlineError: tf.errors.UnknownError,
    },
    own=bps.error_of,
    ways={"": as_it_is, "in a function": tf.function, "in a graph": in_graph},
)


def check_disagreements(rank: int, size: int) -> None:
    disagreements.check(TENSORFLOW)


def check_absent_names(rank: int, size: int) -> None:
    disagreements.check_absent_names(TENSORFLOW)


def check_one_session_after_another(rank: int, size: int) -> None:
    """A trace works on in a later session."""
    program = tf.function(partial(bps.allreduce, name="later", op=bps.Sum))
    ask = tf.function(bps.size_op)
    for _ in range(2):
        assert program(tf.ones(2)).numpy().tolist() == [size] * 2
        assert int(ask()) == size
        bps.barrier(name="before the next session")
        bps.shutdown()
        for call in (partial(program, tf.ones(2)), ask):
            refused(tf.errors.FailedPreconditionError, "bps.init()", call)
        bps.init()


def check_errors(rank: int, size: int) -> None:
    refused(ValueError, "supersedes", lambda: bps.allreduce(1.0, average=True, op=bps.Sum))
    refused(ValueError, "Adasum", lambda: _as_value(lambda: bps.allreduce(1.0, op=bps.Adasum)))


def check_error_classes(rank: int, size: int) -> None:
    pairs = {
        bps.MismatchError: tf.errors.FailedPreconditionError,
        bps.OutOfStepError: tf.errors.FailedPreconditionError,
        bps.DuplicateNameError: tf.errors.InvalidArgumentError,
        bps.InvalidArgumentError: tf.errors.InvalidArgumentError,
        bps.PeerLostError: tf.errors.UnknownError,
        bps.ShutdownError: tf.errors.UnknownError,
    }
    for own, other in pairs.items():
        error = tensorflow_error(own("what happened"))
        assert isinstance(error, own)
        assert isinstance(error, other)
        assert isinstance(error, bps.HorovodInternalError)
        assert str(error) == "what happened"
        assert tensorflow_error(error) is error


def _as_value(call: Callable[[], object]) -> None:
    try:
        call()
    except NotImplementedError as error:
        raise ValueError(str(error)) from error


def check_variables(rank: int, size: int) -> None:
    kinds = ("float32", "float64", "int32", "int64", "bool")
    mine = [tf.Variable(tf.cast(tf.fill([3], rank), kind)) for kind in kinds]
    bps.broadcast_variables(mine, root_rank=size - 1)
    expected = [tf.cast(tf.fill([3], size - 1), kind) for kind in kinds]
    for variable, value in zip(mine, expected, strict=True):
        assert variable.numpy().tolist() == value.numpy().tolist()
    mine[0].assign(tf.fill([3], float(rank)))
    assert bps.broadcast_([mine[0]], root_rank=0)[0].numpy().tolist() == [0, 0, 0]
    bps.check_replicas(mine)
    if size > 1:
        mine[0].assign(tf.fill([3], float(rank)))
        refused(bps.ReplicasDifferError, "different values", lambda: bps.check_replicas(mine))
    refused(ValueError, "list of variables", lambda: bps.broadcast_variables(mine[0], 0))
    refused(RuntimeError, "broadcast_variables", lambda: bps.broadcast_global_variables(0))
    with tf.Graph().as_default():
        variable = tf.compat.v1.get_variable("v", initializer=tf.constant(float(rank)))
        hook = bps.BroadcastGlobalVariablesHook(size - 1)
        with tf.compat.v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
            assert session.run(variable) == size - 1
    assert bps.broadcast_object({"rank": rank}, root_rank=0) == {"rank": 0}
    assert bps.broadcast_object_fn(root_rank=size - 1)(rank) == size - 1
    assert bps.allgather_object("x" * rank) == ["x" * r for r in range(size)]


def check_batch_norm(rank: int, size: int) -> None:
    mine = tf.constant(np.random.default_rng(rank).normal(size=(4, 3)).astype("float32"))
    layer = bps.SyncBatchNormalization(momentum=0.5)
    whole_layer = tf.keras.layers.BatchNormalization(momentum=0.5)
    found = layer(mine, training=True)
    whole = whole_layer(bps.allgather(mine), training=True)
    assert np.allclose(found, whole[4 * rank : 4 * rank + 4], atol=1e-5)
    assert np.allclose(layer.moving_variance, whole_layer.moving_variance, atol=1e-5)
    refused(ValueError, "fused", lambda: bps.SyncBatchNormalization(fused=True))


def check_join(rank: int, size: int) -> None:
    late = size - 1
    for join in (bps.join, tf.function(bps.join)):
        if rank == late:
            total = bps.allreduce(tf.ones(2), op=bps.Average, name="while others have joined")
            assert np.allclose(total, 1 / size)
            group = bps.grouped_allreduce([tf.ones(2), tf.ones(3)], name="group meanwhile")
            assert np.allclose(group[1], 1 / size)
        assert int(join()) == late or size == 1
    assert bps.allreduce(tf.ones(1)).numpy() == 1


def main() -> None:
    bps.init()
    rank, size = bps.rank(), bps.size()
    wanted = sys.argv[1:]
    for name, check in list(globals().items()):
        if name.startswith("check_") and (not wanted or name.removeprefix("check_") in wanted):
            check(rank, size)
    print(f"all right {rank}/{size}")
    bps.shutdown()


main()
