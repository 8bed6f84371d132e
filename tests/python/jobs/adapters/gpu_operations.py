"""A worker: every operation of byteps.numpy on arrays in the memory of the stand-in for the CUDA
driver, with the results that arrays of numpy have. Its streams run late.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import gpu_arrays
import numpy as np
import pytest
from gpu_arrays import Gpu, GpuArray, InterfaceArray, Taken

import byteps.numpy as bps
from byteps import _core
from byteps.common.cuda_memory import NO_STREAM
from byteps.numpy.device_views import DeviceArray

DELAY_US = 300
SIZES = (1, 7, 1000, 65_537)
TYPES = ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8")

gpu = Gpu(os.environ["BYTEPS_CUDA_LIBRARY"])
is_reached = os.environ["BYTEPS_DEVICE_SUMS"] != "host"
checked = 0


class Copier(GpuArray):
    """Gives a copy of itself, of which nobody has more than the capsule."""

    def __dlpack__(self, stream: int | None = None) -> object:
        return GpuArray(self.gpu, self.values).__dlpack__(stream)


def values_on(result: Any, device: int) -> np.ndarray:
    """Return what a result in the memory of the GPU has now, without a wait."""
    assert isinstance(result, (Taken, DeviceArray)), type(result)
    assert result.device == device
    return gpu.read(result.address, result.shape, result.dtype)


def same(result: Any, wanted: np.ndarray, device: int = 0) -> None:
    global checked
    found = values_on(result, device)
    assert found.dtype == wanted.dtype, (found.dtype, wanted.dtype)
    np.testing.assert_array_equal(found, wanted)
    checked += 1


def refused(kind: type[Exception], word: str, call: Callable[[], object]) -> None:
    with pytest.raises(kind, match=word):
        call()


def some(rank: int, shape: Any, dtype: str = "float32") -> np.ndarray:
    return (np.random.default_rng(rank).random(shape) * 9 + 1).astype(dtype)


def check_reductions(rank: int, size: int) -> None:
    ops = (bps.Average, bps.Sum, bps.Min, bps.Max, bps.Product)
    for dtype in TYPES:
        mine = some(rank, (3, 5), dtype)
        for op in ops if dtype in ("float32", "int32") else (bps.Average, bps.Sum):
            wanted = bps.allreduce(mine, name=f"host {dtype}", op=op)
            same(bps.allreduce(GpuArray(gpu, mine), name=f"gpu {dtype}", op=op), wanted)
    for count in SIZES:
        mine = some(rank, count)
        wanted = bps.push_pull(mine, name=f"host {count}")
        same(bps.push_pull(GpuArray(gpu, mine), name=f"gpu {count}"), wanted)
        given = GpuArray(gpu, mine)
        assert bps.push_pull_inplace(given, name=f"gpu {count}") is given
        np.testing.assert_array_equal(given.now(), wanted)
    flag = np.array([rank == 0, False])
    same(bps.allreduce(GpuArray(gpu, flag), name="any", op=bps.Max), np.array([True, False]))


def check_factors(rank: int, size: int) -> None:
    """What numpy calculates beside an operation."""
    factors = {"op": bps.Sum, "prescale_factor": 0.5, "postscale_factor": 3.0}
    for dtype in ("float32", "int32"):
        mine = some(rank, 41, dtype)
        wanted = bps.allreduce(mine, name="host factors", **factors)
        same(bps.allreduce(GpuArray(gpu, mine), name="gpu factors", **factors), wanted)
        given = GpuArray(gpu, mine)
        bps.allreduce_(given, name="gpu factors", **factors)
        np.testing.assert_array_equal(given.now(), wanted)
        wanted = bps.reducescatter(mine, name="host rows", **factors)
        same(bps.reducescatter(GpuArray(gpu, mine), name="gpu rows", **factors), wanted)
    bools = GpuArray(gpu, np.array([True]))
    refused(bps.InvalidArgumentError, "scaled", partial(bps.allreduce, bools, **factors))


def check_rows(rank: int, size: int) -> None:
    for dtype in ("float32", "uint16", "bool"):
        mine = some(rank, (rank + 2, 3), dtype)
        wanted = bps.allgather(mine, name="host gather")
        same(bps.allgather(GpuArray(gpu, mine), name="gpu gather"), wanted)
    same(
        bps.allgather(GpuArray(gpu, np.float32(rank)), name="gpu row"),
        np.arange(size, dtype=np.float32),
    )
    mine = some(rank, (2 * size + 1, 2), "int64")
    splits = [1] * (size - 1) + [size + 2]
    rows, counts = bps.alltoall(mine, splits, name="host dealt")
    found, numbers = bps.alltoall(GpuArray(gpu, mine), splits, name="gpu dealt")
    same(found, rows)
    assert numbers.tolist() == counts.tolist()
    even = some(rank, 3 * size)
    wanted = bps.alltoall(even, name="host even")
    same(bps.alltoall(GpuArray(gpu, even), name="gpu even"), wanted)
    wanted = bps.reducescatter(mine, name="host part", op=bps.Sum)
    same(bps.reducescatter(GpuArray(gpu, mine), name="gpu part", op=bps.Sum), wanted)
    for dtype in ("float64", "uint32"):
        mine = some(rank, (4, 9), dtype)
        same(bps.broadcast(GpuArray(gpu, mine), 1, name="gpu copy"), some(1, (4, 9), dtype))
        given = GpuArray(gpu, mine)
        assert bps.broadcast_(given, 1, name="gpu copy") is given
        np.testing.assert_array_equal(given.now(), some(1, (4, 9), dtype))


def check_groups(rank: int, size: int) -> None:
    mine = [some(rank, 5), some(rank, (2, 3), "float64"), some(rank, 7), some(rank, 4, "int32")]
    for wanted, found in (
        (bps.grouped_allreduce(mine, name="host"), bps.grouped_allreduce(on_gpu(mine), name="gpu")),
        (bps.grouped_allgather(mine, name="host"), bps.grouped_allgather(on_gpu(mine), name="gpu")),
        (
            bps.grouped_reducescatter(mine, name="host"),
            bps.grouped_reducescatter(on_gpu(mine), name="gpu"),
        ),
    ):
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    wanted = bps.grouped_allreduce(mine, name="host", op=bps.Sum)
    given = on_gpu(mine)
    given[2] = mine[2].copy()  # one of the group is in host memory
    bps.grouped_allreduce_(given, name="gpu", op=bps.Sum)
    for one, other in zip(given, wanted, strict=True):
        np.testing.assert_array_equal(one.now() if isinstance(one, GpuArray) else one, other)


def on_gpu(values: list[np.ndarray]) -> list[Any]:
    return [GpuArray(gpu, one) for one in values]


def check_weights(rank: int, size: int) -> None:
    weights = {name: GpuArray(gpu, some(rank, 33)) for name in "abc"}
    refused(bps.ReplicasDifferError, "'a'", partial(bps.check_replicas, weights))
    bps.broadcast_parameters(weights, root_rank=size - 1)
    bps.check_replicas(weights)
    for one in weights.values():
        np.testing.assert_array_equal(one.now(), some(size - 1, 33))


def check_odd_arrays(rank: int, size: int) -> None:
    for shape in (0, (3, 0), (0, 2)):
        empty = np.empty(shape, np.float32)
        same(bps.allreduce(GpuArray(gpu, empty), name=f"empty {shape}"), empty)
        bps.allreduce_(GpuArray(gpu, empty), name=f"empty {shape}")
    same(bps.allgather(GpuArray(gpu, np.empty((0, 2))), name="no rows"), np.empty((0, 2)))
    number = GpuArray(gpu, np.float64(rank))
    same(bps.allreduce(number, name="number", op=bps.Max), np.float64(size - 1))
    long = GpuArray(gpu, np.ones((1, 4), np.float32), steps=(99, 1))  # of one row
    same(bps.allreduce(long, name="long"), np.ones((1, 4), np.float32))
    turned = GpuArray(gpu, np.ones((2, 3)), steps=(1, 2))
    for call in (bps.allreduce, bps.allreduce_, bps.allgather, bps.reducescatter):
        refused(bps.InvalidArgumentError, r"ascontiguousarray\(\)", partial(call, turned))
    for dtype, word in (("uint16", "uint16"), ("longdouble", "128 bits")):
        refused(bps.InvalidArgumentError, word, partial(bps.allreduce, GpuArray(gpu, [1], dtype)))


def check_wrong_memory(rank: int, size: int) -> None:
    if not is_reached:  # the driver itself copies, and it knows where memory is
        return
    gone = GpuArray(gpu, np.ones(4))
    gone.free()
    other = GpuArray(gpu, np.ones(4))
    for array, claims, word in (
        (other, 1, "belongs to cuda:0"),
        (other, 9, "9"),
        (gone, 0, "no memory of a GPU"),
    ):
        array.claims = claims
        for call in (bps.allreduce, bps.allreduce_):
            refused(bps.InvalidArgumentError, word, partial(call, array, name="gone"))
    wanted = np.full(4, float(size))
    same(bps.allreduce(GpuArray(gpu, np.ones(4)), name="gone", op=bps.Sum), wanted)


def check_another_gpu(rank: int, size: int) -> None:
    """Results are on the GPU of their input, whatever context the thread has."""
    other = Gpu(os.environ["BYTEPS_CUDA_LIBRARY"], 1)
    mine = some(rank, 999)
    factors = {"op": bps.Sum, "postscale_factor": 0.5}
    for number, options in enumerate(({}, factors)):
        wanted = bps.allreduce(mine, name=f"host {number}", **options)
        given = GpuArray(other, mine)
        gpu.call("cuCtxSetCurrent", gpu.context)
        same(bps.allreduce(given, name=f"other {number}", **options), wanted, 1)
        bps.allreduce_(given, name=f"other {number}", **options)
        np.testing.assert_array_equal(given.now(), wanted)
    rows = bps.allgather(mine, name="host rows")
    same(bps.allgather(GpuArray(other, mine), name="other rows"), rows, 1)


def check_that_arrays_live_as_long_as_their_operation(rank: int, size: int) -> None:
    for count in SIZES:
        mine = some(rank, count)
        wanted = bps.allreduce(mine, name="host kept")
        handle = bps.allreduce_async(GpuArray(gpu, mine), name="gpu kept")  # nobody else has it
        same(bps.synchronize(handle), wanted)
        handle = bps.allreduce_async(Copier(gpu, mine), name="gpu kept")
        same(bps.synchronize(handle), wanted)


def check_that_the_session_copies(rank: int, size: int) -> None:
    """It copies through pinned memory; copies of Python would be counted as pageable ones."""
    before = gpu.counts().pageable_copies
    for count in SIZES:
        given = GpuArray(gpu, some(rank, count))
        bps.allreduce(given, name="copied")
        bps.allreduce_(given, name="copied")
        bps.broadcast(given, 0, name="copied")
        if count >= size:
            bps.reducescatter(given, name="copied", op=bps.Min)
    assert (gpu.counts().pageable_copies == before) == is_reached


def check_that_results_are_given_back(rank: int, size: int) -> None:
    given = GpuArray(gpu, some(rank, 100_000))
    bps.allreduce(given, name="given back")
    gc.collect()  # what other checks have left
    before = gpu.counts().device_bytes
    for _ in range(10):
        bps.allreduce(given, name="given back")
    assert gpu.counts().device_bytes <= before


def check_numba(rank: int, size: int) -> None:
    mine = some(rank, 500)
    wanted = bps.allreduce(mine, name="host numba")
    result = bps.allreduce(InterfaceArray(gpu, mine), name="gpu numba")
    same(result, wanted)
    facts = {} if isinstance(result, Taken) else result.__cuda_array_interface__
    assert facts.get("typestr", "<f4") == "<f4"
    assert _core.NO_STREAM == NO_STREAM
    ready = InterfaceArray(gpu, mine)
    ready.wait()  # so it names no stream
    same(bps.allreduce(ready, name="gpu numba"), wanted)
    given = InterfaceArray(gpu, mine)
    bps.allreduce_(given, name="gpu numba")
    np.testing.assert_array_equal(given.now(), wanted)
    fixed = InterfaceArray(gpu, mine, read_only=True)
    refused(bps.InvalidArgumentError, "read-only", partial(bps.allreduce_, fixed))


def check_results_of_a_library_without_from_dlpack(rank: int, size: int) -> None:
    take = gpu_arrays.from_dlpack
    del gpu_arrays.from_dlpack
    try:
        mine = some(rank, (3, 3))
        result = bps.allreduce(GpuArray(gpu, mine), name="own", op=bps.Sum)
        assert isinstance(result, DeviceArray)
        wanted = bps.allreduce(mine, name="host own", op=bps.Sum)
        np.testing.assert_array_equal(result.numpy(), wanted)
        same(bps.allreduce(result, name="again", op=bps.Sum), wanted * size)
    finally:
        gpu_arrays.from_dlpack = take


def check_ranks_with_arrays_elsewhere(rank: int, size: int) -> None:
    """One rank has it on a GPU, another in host memory."""
    mine = some(rank, 100)
    wanted = bps.allreduce(mine, name="host mixed")
    if rank == 0:
        same(bps.allreduce(GpuArray(gpu, mine), name="mixed"), wanted)
    else:
        np.testing.assert_array_equal(bps.allreduce(mine, name="mixed"), wanted)


bps.init()
rank, size = bps.rank(), bps.size()
gpu.late(rank + 1, DELAY_US)
assert bps.cuda_built() == is_reached
for name, check in sorted(globals().items()):
    if name.startswith("check_"):
        check(rank, size)
bps.shutdown()
print(f"{checked} results on the GPU; all right {rank}/{size}", flush=True)
