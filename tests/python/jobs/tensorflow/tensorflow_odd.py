"""A worker: every public function of byteps.tensorflow with odd tensors, see odd.py.

Kernels that look where the memory of their inputs begins use each result: TensorFlow ends the
process if it does not begin at a multiple of 64 bytes. `ROWS` has a row for each public function;
test_tensorflow.py compares it with the module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.append(str(Path(__file__).resolve().parents[1] / "adapters"))

import numpy as np
import odd
import tensorflow as tf
from odd import Case

import byteps.tensorflow as bps

Pairs = Iterable[tuple[Any, np.ndarray]]  # a result, and what it must be
Row = Callable[[Case, Any], Pairs]  # gets this rank's tensor, too


def use(name: str, result: Any, expected: np.ndarray) -> None:
    """Compare a result, after kernels have used it that look at its memory."""
    tensor = tf.convert_to_tensor(result)
    assert tensor.dtype == expected.dtype, (name, tensor.dtype, expected.dtype)
    assert tuple(tensor.shape) == expected.shape, (name, tensor.shape, expected.shape)
    if expected.size:
        place = np.asarray(memoryview(tensor)).ctypes.data
        assert place % 64 == 0, (name, place % 64)
    flat = tf.reshape(tensor, [-1])
    half = expected.size // 2
    seen = [
        tf.concat([tf.slice(flat, [0], [half]), tf.slice(flat, [half], [-1])], 0),
        tf.reverse(tf.reverse(flat, [0]), [0]),
        tf.strided_slice(tf.tile(flat, [2]), [expected.size], [2 * expected.size]),
        tf.cast(tf.cast(flat, tf.float64), tensor.dtype),
        tf.gather(flat, tf.range(expected.size)),
    ]
    for one in seen:
        assert one.numpy().tolist() == expected.reshape(-1).tolist(), (name, one, expected)


def sums(case: Case, mine: Any) -> Pairs:
    yield bps.allreduce(mine, op=bps.Sum), case.total
    yield bps.allreduce(mine, op=bps.Max), np.max(case.parts, axis=0)
    factors = {"prescale_factor": 2.0, "postscale_factor": 0.5}
    yield bps.allreduce(mine, op=bps.Sum, **factors), case.total


def pushed(case: Case, mine: Any) -> Pairs:
    yield bps.push_pull(mine, op=bps.Sum), case.total


def gathered(case: Case, mine: Any) -> Pairs:
    yield bps.allgather(mine), case.joined
    uneven = mine[case.rank :]
    yield bps.allgather(uneven), np.concatenate([p[r:] for r, p in enumerate(case.parts)])


def copied(case: Case, mine: Any) -> Pairs:
    yield bps.broadcast(mine, root_rank=case.size - 1), case.parts[-1]


def exchanged(case: Case, mine: Any) -> Pairs:
    found, counts = bps.alltoall(mine, splits=case.splits)
    yield found, case.received
    yield counts, np.full(case.size, case.splits[case.rank], np.int32)


def scattered(case: Case, mine: Any) -> Pairs:
    yield bps.reducescatter(mine, op=bps.Sum), case.own_rows_of_total
    factors = {"prescale_factor": 2.0, "postscale_factor": 0.5}
    yield bps.reducescatter(mine, op=bps.Sum, **factors), case.own_rows_of_total


def group_sums(case: Case, mine: Any) -> Pairs:
    rows = tf.IndexedSlices(mine, tf.range(case.shape[0]), case.shape)
    one, two, three = bps.grouped_allreduce([mine, rows, mine[1:]], op=bps.Sum)
    yield one, case.total
    yield two.values, case.joined
    yield two.indices, np.concatenate([np.arange(case.shape[0], dtype=np.int32)] * case.size)
    yield three, case.total[1:]


def group_gathered(case: Case, mine: Any) -> Pairs:
    one, two = bps.grouped_allgather([mine, mine[1:]])
    yield one, case.joined
    yield two, np.concatenate([part[1:] for part in case.parts])


def group_scattered(case: Case, mine: Any) -> Pairs:
    for found in bps.grouped_reducescatter([mine, mine], op=bps.Sum):
        yield found, case.own_rows_of_total


def compressed(case: Case, mine: Any) -> Pairs:
    for kind in (bps.Compression.fp16, bps.Compression.none):
        yield bps.allreduce(mine, op=bps.Sum, compression=kind), case.total


def objects_of_all(case: Case, mine: Any) -> Pairs:
    for found, part in zip(bps.allgather_object(mine.numpy()), case.parts, strict=True):
        yield tf.constant(found), part


def object_of_root(case: Case, mine: Any) -> Pairs:
    yield tf.constant(bps.broadcast_object(mine.numpy(), root_rank=0)), case.parts[0]


def object_by_function(case: Case, mine: Any) -> Pairs:
    yield tf.constant(bps.broadcast_object_fn(root_rank=0)(mine.numpy())), case.parts[0]


def root_variables(case: Case, mine: Any) -> Pairs:
    variables = [tf.Variable(mine), tf.Variable(mine[1:])]
    bps.broadcast_variables(variables, root_rank=0)
    yield variables[0], case.parts[0]
    yield variables[1], case.parts[0][1:]


def root_values(case: Case, mine: Any) -> Pairs:
    variable = tf.Variable(mine)
    (found,) = bps.broadcast_([variable], root_rank=0)
    yield found, case.parts[0]
    yield variable, case.parts[0]


def _in_session(case: Case, mine: Any, prepare: Callable[[], Any], hooks: list[Any]) -> Pairs:
    if case.kind != "float32":  # a session takes longer than all else
        return
    array = mine.numpy()
    with tf.Graph().as_default():
        variable = tf.compat.v1.get_variable("v", initializer=lambda: tf.constant(array))
        after = prepare()
        with tf.compat.v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            if after is not None:
                session.run(after)
            found = session.run(variable)
    yield tf.constant(found), case.parts[0]


def global_variables(case: Case, mine: Any) -> Pairs:
    return _in_session(case, mine, lambda: bps.broadcast_global_variables(0), [])


def variables_by_hook(case: Case, mine: Any) -> Pairs:
    return _in_session(case, mine, lambda: None, [bps.BroadcastGlobalVariablesHook(0)])


def compared(case: Case, mine: Any) -> Pairs:
    same = tf.Variable(case.parts[0])
    bps.check_replicas([same, tf.Variable(same[1:])])
    yield same, case.parts[0]


def _gradients(tape_of: Callable[[Any, list[Any]], Any], case: Case, mine: Any) -> Pairs:
    if not case.is_floating:
        return
    weights = [tf.Variable(tf.zeros(case.shape, case.kind)) for _ in "ab"]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(weights[0] * mine) + tf.reduce_sum(weights[1] * mine)
    one, two = tape_of(tape, weights).gradient(loss, weights)
    yield one, case.total
    yield two, case.total


def tapes(case: Case, mine: Any) -> Pairs:
    return _gradients(lambda tape, _: bps.DistributedGradientTape(tape, op=bps.Sum), case, mine)


def partial_tapes(case: Case, mine: Any) -> Pairs:
    made = bps.PartialDistributedGradientTape
    return _gradients(lambda tape, _: made(tape, op=bps.Sum, local_layers=[]), case, mine)


def optimizers(case: Case, mine: Any) -> Pairs:
    if not case.is_floating:
        return
    weights = tf.Variable(tf.zeros(case.shape, case.kind))
    stock = tf.compat.v1.train.GradientDescentOptimizer(1.0)
    optimizer = bps.DistributedOptimizer(stock, op=bps.Sum)
    ((gradient, _),) = optimizer.compute_gradients(
        lambda: tf.reduce_sum(weights * mine), var_list=[weights]
    )
    yield gradient, case.total
    optimizer.apply_gradients([(gradient, weights)])
    yield weights, -case.total


def normalized(case: Case, mine: Any) -> Pairs:
    if case.kind != "float32" or len(case.shape) < 2 or not case.shape[0]:
        return
    layer = bps.SyncBatchNormalization()
    whole = case.joined.astype(np.float64)
    means = whole.mean(axis=0)
    squares = ((whole - means) ** 2).mean(axis=0)
    found = layer(mine, training=True)
    own = (case.mine - means) / np.sqrt(squares + layer.epsilon)
    assert np.allclose(found, own, atol=1e-3)
    yield found, found.numpy()


def numbers(ask: Callable[[], Any], expected: Callable[[Case], int]) -> Row:
    def row(case: Case, mine: Any) -> Pairs:
        yield tf.fill([17], ask()), np.full(17, expected(case), np.int32)

    return row


def joined(case: Case, mine: Any) -> Pairs:
    last = bps.join()
    yield tf.fill([17], last) * 0, np.zeros(17, np.int32)


ROWS: dict[str, Row] = {
    "BroadcastGlobalVariablesHook": variables_by_hook,
    "Compression": compressed,
    "DistributedGradientTape": tapes,
    "DistributedOptimizer": optimizers,
    "PartialDistributedGradientTape": partial_tapes,
    "SyncBatchNormalization": normalized,
    "allgather": gathered,
    "allgather_object": objects_of_all,
    "allreduce": sums,
    "alltoall": exchanged,
    "broadcast": copied,
    "broadcast_": root_values,
    "broadcast_global_variables": global_variables,
    "broadcast_object": object_of_root,
    "broadcast_object_fn": object_by_function,
    "broadcast_variables": root_variables,
    "check_replicas": compared,
    "grouped_allgather": group_gathered,
    "grouped_allreduce": group_sums,
    "grouped_reducescatter": group_scattered,
    "join": joined,
    "local_rank_op": numbers(bps.local_rank_op, lambda case: case.rank),
    "local_size_op": numbers(bps.local_size_op, lambda case: case.size),
    "process_set_included_op": numbers(bps.process_set_included_op, lambda _: 1),
    "push_pull": pushed,
    "rank_op": numbers(bps.rank_op, lambda case: case.rank),
    "reducescatter": scattered,
    "size_op": numbers(bps.size_op, lambda case: case.size),
}
# What takes no tensor and gives none.
WITHOUT_TENSORS = {"Compressor", "barrier", "error_of"}

# What a tf.function may contain, beside the calls that answer at once.
IN_FUNCTIONS = (
    "allgather", "allreduce", "alltoall", "broadcast", "grouped_allgather", "grouped_allreduce",
    "grouped_reducescatter", "push_pull", "reducescatter",
)  # fmt: skip


# With jit_compile=True, which needs TensorFlow 2.19.
IS_XLA_SUPPORTED = tuple(int(part) for part in tf.__version__.split(".")[:2]) >= (2, 19)
IN_XLA = ("allreduce", "broadcast", "push_pull") * IS_XLA_SUPPORTED
IN_FUNCTION_SHAPES = ((5001,), (3, 5), (0, 3))  # a trace takes longer than all else


def in_function(row: Row, case: Case, mine: Any, jit_compile: bool = False) -> Pairs:
    """Return what a row gives in a tf.function."""
    expected: list[np.ndarray] = []

    @tf.function(jit_compile=jit_compile)
    def program(given: Any) -> list[Any]:
        pairs = list(row(case, given))
        expected[:] = [one for _, one in pairs]
        return [result for result, _ in pairs]

    return list(zip(program(mine), expected, strict=True))


def main() -> None:
    bps.init()
    rank, size = bps.rank(), bps.size()
    for case in odd.cases(rank, size):
        whole = tf.concat([tf.zeros([1], case.kind), case.mine.reshape(-1)], 0)
        mine = tf.reshape(whole[1:], case.shape)
        for name, row in ROWS.items():
            for result, expected in row(case, mine):
                use(f"{name} {case}", result, expected)
            if case.kind != "uint8" or case.shape not in IN_FUNCTION_SHAPES:
                continue
            if name in IN_FUNCTIONS:
                for result, expected in in_function(row, case, mine):
                    use(f"{name} {case} in a function", result, expected)
            if name in IN_XLA:
                for result, expected in in_function(row, case, mine, jit_compile=True):
                    use(f"{name} {case} in XLA", result, expected)
    bps.shutdown()
    print(f"all right {rank}/{size}")


if __name__ == "__main__":
    main()
