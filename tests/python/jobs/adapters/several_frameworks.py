"""A worker: several frameworks in one process share one session."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax
import numpy as np
import tensorflow as tf
import torch

import byteps.jax
import byteps.numpy
import byteps.tensorflow
import byteps.torch
from byteps.common.programs import xla
from byteps.tensorflow import kernels

MODULES = (byteps.torch, byteps.tensorflow, byteps.jax, byteps.numpy)
MAKERS = (torch.full, tf.fill, jax.numpy.full, np.full)
STEPS = 20


def numbers(tensor: object) -> list[float]:
    return np.asarray(tensor).tolist()


def check_one_session(rank: int, size: int) -> None:
    for module in MODULES:
        assert module.is_initialized()
        assert (module.rank(), module.size()) == (rank, size)
        module.init()  # there is a session already
    total = size * (size - 1) / 2
    for module, make in zip(MODULES, MAKERS, strict=True):
        mine = make((3,), float(rank))
        assert numbers(module.allreduce(mine, name="one name", op=module.Sum)) == [total] * 3
    # Each rank brings a tensor of another framework, and they meet by the name.
    place = rank % len(MODULES)
    mine = MAKERS[place]((3,), np.float32(rank))
    found = MODULES[place].allreduce(mine, name="meeting", op=byteps.torch.Sum)
    assert numbers(found) == [total] * 3, found


def check_one_list_of_sets(rank: int, size: int) -> None:
    some = byteps.torch.add_process_set([0]) if size > 1 else byteps.torch.global_process_set
    if some.included():
        found = byteps.tensorflow.allreduce(tf.ones(2), name="some", process_set=some)
        assert numbers(found) == [1.0] * 2
    if size > 1:
        assert byteps.jax.remove_process_set(some)


def check_input_beside_training(rank: int, size: int) -> None:
    """A pipeline of TensorFlow, on its own threads, prepares what torch trains on."""
    dice = np.random.default_rng(0)
    rows = dice.normal(size=(8 * size * STEPS, 4)).astype("float32")
    dataset = tf.data.Dataset.from_tensor_slices(rows).shard(size, rank).batch(8)
    scale = byteps.tensorflow.allreduce(tf.constant(float(rank)), name="scale")
    dataset = dataset.map(lambda batch: batch + 0 * scale).prefetch(2)
    torch.manual_seed(rank)
    model = torch.nn.Linear(4, 1)
    byteps.torch.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = byteps.torch.DistributedOptimizer(optimizer, model.named_parameters())
    batches = 0
    for batch in dataset:
        optimizer.zero_grad()
        loss = model(torch.from_numpy(batch.numpy())).square().mean()
        loss.backward()
        # While the gradients of torch are on their way.
        mean = byteps.tensorflow.allreduce(tf.constant(loss.item()), name="loss")
        count = byteps.jax.allreduce(jax.numpy.ones(()), name="count", op=byteps.jax.Sum)
        assert float(count) == size
        optimizer.step()
        batches += 1
    assert batches == STEPS
    assert np.isfinite(float(mean))
    byteps.torch.check_replicas(model.state_dict())


class PageError(Exception):
    """An error that has a code, but is not of byteps."""

    code = 404


def end_of(program: Callable[[], object]) -> BaseException | None:
    """Return the exception that the program leaves to the main thread."""
    try:
        try:
            program()
        finally:
            time.sleep(0.1)  # a step of Python after the framework has returned
    except BaseException as error:
        return error
    return None


def check_exits_inside_of_programs(rank: int, size: int) -> None:
    """Of a signal handler that Python runs where a framework starts an exchange."""

    def of_tensorflow() -> object:
        return tf.function(partial(byteps.tensorflow.allreduce, name="exit"))(tf.ones(2))

    def of_jax() -> object:
        program = jax.jit(partial(byteps.jax.allreduce, name="exit"))
        return program(jax.numpy.ones(2)).block_until_ready()

    for program, module in ((of_tensorflow, kernels), (of_jax, xla)):
        for exit_ in (SystemExit(3), SystemExit("a text"), SystemExit(), KeyboardInterrupt()):
            with mock.patch.object(module, "begin", side_effect=exit_):
                found = end_of(program)
                assert found is exit_, (program, exit_, found)
        with mock.patch.object(module, "begin", side_effect=PageError("no page")):
            text = str(end_of(program))
            assert "PageError: no page" in text, text
            assert "404" not in text, text
        assert numbers(program()) == [1.0] * 2


def main() -> None:
    torch.set_num_threads(1)
    for first, last in ((byteps.tensorflow, byteps.jax), (byteps.numpy, byteps.torch)):
        first.init()
        rank, size = last.rank(), last.size()
        for name, check in list(globals().items()):
            if name.startswith("check_"):
                check(rank, size)
        last.barrier(name="end")
        last.shutdown()
        assert not any(module.is_initialized() for module in MODULES)
    print(f"all right {rank}/{size}")


main()
