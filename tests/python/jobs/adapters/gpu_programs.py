"""A worker: custom calls of XLA on the stand-in for the CUDA driver, whose streams run late. What a
call has to do is what the lowering for CUDA puts into programs.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from gpu_arrays import Gpu, GpuArray
from xla_frames import FakeXla, XlaError

import byteps.numpy as bps
from byteps import _core
from byteps.common.programs.program_exchange import Exchange
from byteps.common.programs.xla_device import text_of
from byteps.common.session import default
from byteps.common.types import Operation

DELAY_US = 500

gpu = Gpu(os.environ["BYTEPS_CUDA_LIBRARY"])
xla = FakeXla(_core.xla_device_handler, gpu.stream.value or 0)
checked = 0


def some(rank: int, shape: Any, dtype: str = "float32") -> np.ndarray:
    return (np.random.default_rng(rank).random(shape) * 9 + 1).astype(dtype)


def gate(number: int = 0) -> GpuArray:
    return GpuArray(gpu, np.uint32(number))


def call(what: list[Exchange], inputs: list[np.ndarray], shapes: Any = None) -> list[np.ndarray]:
    """Return what the outputs have at the moment at which the call is over."""
    global checked
    given = [GpuArray(gpu, one) for one in inputs]
    shapes = [one.shape for one in inputs] if shapes is None else shapes
    room = [
        GpuArray(gpu, np.zeros(shape, one.dtype)) for shape, one in zip(shapes, inputs, strict=True)
    ]
    xla.call(text_of(what), [*given, gate(7)], room)
    checked += 1
    return [one.now() for one in room]


def refused(word: str, *arguments: Any) -> None:
    with pytest.raises(XlaError, match=word):
        call(*arguments)


def check_a_tree_is_one_call(rank: int, size: int) -> None:
    shapes = [(), (3, 5), 1000, 65_537, 0]
    mine = [some(rank, shape, dtype) for shape in shapes for dtype in ("float32", "float16")]
    what = [Exchange(Operation.AVERAGE, "tree", f"[{i}]", priority=-i) for i in range(len(mine))]
    gpu.late(rank + 1, 10 * DELAY_US)  # so that a call that did not wait would come first
    for _ in range(2):
        found = call(what, mine)
        for i, (one, array) in enumerate(zip(found, mine, strict=True)):
            np.testing.assert_array_equal(one, bps.push_pull(array, name=f"host {i}"))


def check_calls_without_a_name(rank: int, size: int) -> None:
    """They take the number of their gate, which is in the memory of the GPU, too."""
    (found,) = call([Exchange(Operation.SUM, None)], [np.full(9, rank + 1.0)])
    assert (found == size * (size + 1) // 2).all()


def check_other_operations(rank: int, size: int) -> None:
    mine = some(rank, (2 * size, 3))
    what = [
        Exchange(Operation.BROADCAST, "copy", root_rank=size - 1),
        Exchange(Operation.ALLGATHER, "rows", rows=(2 * size,) * size),
        Exchange(Operation.ALLTOALL, "dealt", rows=(2,) * size),
        Exchange(Operation.REDUCESCATTER, "part", combine=Operation.MAX),
    ]
    shapes = [(2 * size, 3), (2 * size * size, 3), (2 * size, 3), (2, 3)]
    copy, rows, dealt, part = call(what, [mine] * 4, shapes)
    every = [some(r, (2 * size, 3)) for r in range(size)]
    np.testing.assert_array_equal(copy, every[-1])
    np.testing.assert_array_equal(rows, np.concatenate(every))
    own = slice(2 * rank, 2 * rank + 2)
    np.testing.assert_array_equal(dealt, np.concatenate([one[own] for one in every]))
    np.testing.assert_array_equal(part, np.max(every, axis=0)[own])


def check_a_barrier_returns_its_gate(rank: int, size: int) -> None:
    number, room = gate(41), GpuArray(gpu, np.uint32(0))
    xla.call(
        text_of([Exchange(Operation.BARRIER, "meet", detail="all alike")]),
        [GpuArray(gpu, np.uint8(0)), number],
        [room],
    )
    assert room.now() == 41


def check_errors(rank: int, size: int) -> None:
    """They are the call's, which is over when all its operations are."""
    what = [Exchange(Operation.SUM, "good"), Exchange(Operation.SUM, "bad")]
    inputs = [np.ones(5), np.ones(4 if rank else 3)]
    refused("byteps error 2: ", what, inputs)
    (found, _) = call(what, [np.ones(5), np.ones(4)])  # the names are free
    assert (found == size).all()
    rows = Exchange(Operation.ALLGATHER, "uneven", rows=(1,) * size)
    refused("the same number of rows", [rows], [np.ones(1 + rank)], [(size,)])
    wrong = Exchange(Operation.BROADCAST, "root", root_rank=99)
    refused("byteps error 1: ", [Exchange(Operation.SUM, "good"), wrong], [np.ones(5)] * 2)
    gone = GpuArray(gpu, np.ones(3))
    gone.free()
    text = text_of([Exchange(Operation.SUM, "gone")])
    with pytest.raises(XlaError, match="no memory of a GPU"):
        xla.call(text, [gone, gate()], [GpuArray(gpu, np.ones(3))])


bps.init()
rank, size = bps.rank(), bps.size()
default.current().expect_calls()
gpu.late(rank + 1, DELAY_US)
for name, check in sorted(globals().items()):
    if name.startswith("check_"):
        check(rank, size)
        bps.barrier(f"after {name}")
bps.shutdown()
print(f"{checked} calls on the GPU; all right {rank}/{size}", flush=True)
