"""A worker: exchanges of byteps.tensorflow inside jit_compile=True, or the errors that say no."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import byteps.tensorflow as bps

# Before, the structs of XLA's interface are others.
IS_SUPPORTED = tuple(int(part) for part in tf.__version__.split(".")[:2]) >= (2, 19)

compiled = partial(tf.function, jit_compile=True)


def refused(kinds: Any, word: str, call: Callable[[], object]) -> Any:
    """Return the error of a call, which must be of some kinds, with a word in its text."""
    caught = None
    try:
        call()
    except kinds as error:
        caught = error
    assert caught is not None
    assert word in str(caught), caught
    return caught


def check_operations(rank: int, size: int) -> None:
    @compiled
    def call(x: Any) -> Any:
        total = bps.allreduce(x, op=bps.Sum, name="total")
        mean = bps.allreduce(tf.cast(x, tf.int32), prescale_factor=2.0)
        group = bps.grouped_allreduce([x, x + 1], op=bps.Max, name="group")
        return total, bps.broadcast(x, root_rank=size - 1), mean, group

    mine = tf.constant([1.0, -2.0]) * (rank + 1)
    for _ in range(2):
        total, last, mean, (one, two) = call(mine)
        ranks = size * (size + 1) // 2
        assert total.numpy().tolist() == [ranks, -2 * ranks]
        assert last.numpy().tolist() == [size, -2 * size]
        assert mean.numpy().tolist() == [int(2 * ranks / size), int(-4 * ranks / size)]
        assert one.numpy().tolist() == [size, -2]
        assert two.numpy().tolist() == [size + 1, -1]


def check_gradients(rank: int, size: int) -> None:
    @compiled
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(bps.allreduce(x, op=bps.Sum) + bps.broadcast(x, root_rank=0))
        return tape.gradient(total, x)

    expected = size + (1 if rank == 0 else 0)
    assert gradient(tf.ones(3)).numpy().tolist() == [expected] * 3


def train(weights: list[Any], rows: Any, wrap: Callable[[Any], Any], is_compiled: bool) -> None:
    def step(values: Any) -> None:
        with tf.GradientTape() as tape:
            for weight in weights:
                values = tf.tanh(values @ weight)
            loss = tf.reduce_mean(values**2)
        for weight, gradient in zip(weights, wrap(tape).gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)

    step = tf.function(step, jit_compile=is_compiled)
    for _ in range(3):
        step(tf.constant(rows))


def check_training(rank: int, size: int) -> None:
    dice = np.random.default_rng(0)
    start = [dice.normal(size=(8, 8)) for _ in range(4)]
    rows = dice.normal(size=(2 * size, 8))
    mine = [tf.Variable(weight) for weight in start]
    alone = [tf.Variable(weight) for weight in start]
    train(mine, rows[2 * rank : 2 * rank + 2], bps.DistributedGradientTape, True)
    bps.check_replicas(mine)
    if rank != 0:
        return  # all ranks have the same weights, so one compares
    train(alone, rows, lambda tape: tape, True)
    for one, other in zip(mine, alone, strict=True):
        assert abs(one.numpy() - other.numpy()).max() < 1e-12


def check_errors(rank: int, size: int) -> None:
    wrong = tf.errors.InvalidArgumentError
    for call in (bps.allgather, bps.alltoall, bps.reducescatter):
        refused(wrong, "jit_compile=False", lambda call=call: compiled(call)(tf.ones(size)))
    refused(wrong, "jit_compile=False", lambda: compiled(bps.size_op)())
    if size > 1:
        call = compiled(partial(bps.allreduce, name="shape"))
        kind = tf.errors.FailedPreconditionError
        error = refused(kind, "ranks disagree", lambda: call(tf.ones(2 + rank)))
        assert isinstance(bps.error_of(error), bps.MismatchError)


def main() -> None:
    bps.init()
    rank, size = bps.rank(), bps.size()
    if IS_SUPPORTED:
        check_operations(rank, size)
        check_gradients(rank, size)
        check_training(rank, size)
        check_errors(rank, size)
    else:
        call = compiled(bps.allreduce)
        refused(tf.errors.InvalidArgumentError, "jit_compile=False", lambda: call(tf.ones(2)))
    print(f"all right {rank}/{size}")
    bps.shutdown()


main()
