"""A worker: every operation of byteps.mxnet, with known results."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "adapters"))

import numpy as np
import old_numpy  # noqa: F401

import mxnet as mx  # isort: skip
import disagreements
from disagreements import Framework
from mxnet import nd

import byteps.mxnet as bps

TYPES = ("float32", "float64", "float16", "int8", "int32", "int64", "uint8")


def refused(kind: type[BaseException], word: str, call: Callable[[], Any]) -> None:
    """Expect an error of a kind, with a word in its text, at the call or where it is read."""
    text = ""
    try:
        result = call()
        for array in result if isinstance(result, (list, tuple)) else [result]:
            array.wait_to_read()
    except kind as error:
        text = str(error)
    assert word in text, f"{word} is not in {text!r}"


def full(shape: Any, value: Any, dtype: str = "float32") -> Any:
    return nd.full(shape, value, dtype=dtype)


def same(found: Any, expected: Any) -> bool:
    return bool((found.asnumpy() == np.asarray(expected)).all())


def of(values: Any, dtype: str) -> Any:
    return nd.array(np.array(values, dtype), dtype=dtype)


def check_types(rank: int, size: int) -> None:
    for dtype in TYPES:
        mine = full((3, 2), rank + 1, dtype)
        total = bps.allreduce(mine, op=bps.Sum, name=f"sum {dtype}")
        copied = bps.broadcast(mine, root_rank=size - 1, name=f"copy {dtype}")
        gathered = bps.allgather(mine, name=f"rows {dtype}")
        part = bps.reducescatter(full((size + 1, 2), rank, dtype), bps.Sum, f"part {dtype}")
        dealt = bps.alltoall(full((size, 2), rank, dtype), name=f"dealt {dtype}")
        for result in (total, copied, gathered, part, dealt):
            assert np.dtype(result.dtype) == dtype
        assert same(total, size * (size + 1) // 2)
        assert same(copied, size)
        assert gathered[:, 0].asnumpy().tolist() == [r + 1 for r in range(size) for _ in range(3)]
        assert part.shape == ((2 if rank == 0 else 1), 2)
        assert same(part, size * (size - 1) // 2)
        assert dealt[:, 0].asnumpy().tolist() == list(range(size))
        assert same(mine, rank + 1)
        bps.allreduce_(mine, op=bps.Max, name=f"max {dtype}")
        assert same(mine, size)
    yes = bps.broadcast(of([rank == 0, True], "bool"), root_rank=0, name="bool")
    assert yes.dtype == np.bool_
    assert same(yes, True)


def check_numbers(rank: int, size: int) -> None:
    mean = bps.allreduce(full((2,), rank), name="mean")
    assert same(mean, (size - 1) / 2)
    lowest = bps.allreduce(full((2,), rank + 1), op=bps.Min, name="min")
    product = bps.allreduce(full((2,), rank + 1), op=bps.Product, name="product")
    assert same(lowest, 1)
    assert same(product, np.prod(range(1, size + 1)))
    for dtype in ("int8", "int32", "int64"):  # toward zero
        cut = bps.allreduce(of([-3, 3, -7, 8], dtype) + rank * 0, name=f"cut {dtype}")
        assert cut.asnumpy().tolist() == [-3, 3, -7, 8]
        cut = bps.allreduce(of([-1, 1], dtype) * (rank == 0), name=f"zero {dtype}")
        assert cut.asnumpy().tolist() == ([0, 0] if size > 1 else [-1, 1])
    big = of([2**60 + 1], "int64")
    assert same(bps.allreduce(big, name="big"), 2**60 + 1)
    scaled = bps.allreduce(full((2,), 3), op=bps.Sum, prescale_factor=0.5, postscale_factor=4.0)
    assert same(scaled, 3 * 0.5 * size * 4)
    ints = bps.allreduce(of([7, -7], "int32"), op=bps.Sum, prescale_factor=0.5, name="scaled ints")
    assert ints.asnumpy().tolist() == [3 * size, -3 * size]
    half = bps.allreduce(of([1.5], "float16"), postscale_factor=1 / 3, name="half")
    assert half.dtype == np.float16
    assert same(half, np.float16(0.5))
    refused(bps.InvalidArgumentError, "bool", lambda: bps.allreduce(
        of([True], "bool"), op=bps.Max, prescale_factor=2.0, name="x"))  # fmt: skip


def check_push_pull(rank: int, size: int) -> None:
    bps.byteps_declare_tensor("w")
    for place in range(3):
        tensor = full((4, 5), rank)
        assert bps.byteps_push_pull(tensor, version=0, priority=-place, name="w") is None
        assert same(tensor, (size - 1) / 2)
    bps.byteps_push_pull(tensor, name="w", is_average=False)
    assert same(tensor, size * (size - 1) / 2)
    refused(NotImplementedError, "onebit", lambda: bps.byteps_declare_tensor(
        "w", byteps_compressor_type="onebit"))  # fmt: skip
    refused(ValueError, "byteps_", lambda: bps.byteps_declare_tensor("w", other=1))
    refused(ValueError, "text or a number", lambda: bps.byteps_declare_tensor("w", byteps_x=[]))


def check_order_of_the_engine(rank: int, size: int) -> None:
    """What uses an array waits for what was pushed before, and only for that."""
    array = full((100, 100), rank + 1)
    total = size * (size + 1) / 2
    for _ in range(5):
        array = array + 1  # before
        bps.allreduce_(array, name="ordered", op=bps.Sum)
        array = (array - total) / size - 1 + (array * 0)  # after
        array = array * 0 + rank + 1
    assert same(array, rank + 1)
    many = [full((1000,), n) for n in range(40)]
    results = [bps.allreduce(one, name=f"many {n}", priority=-n) for n, one in enumerate(many)]
    del many
    for n, result in reversed(list(enumerate(results))):
        assert same(result, n)
    view = full((6, 2), rank)
    bps.allreduce_(view[2:4], name="view", op=bps.Sum)
    expected = np.full((6, 2), rank)
    expected[2:4] = size * (size - 1) // 2
    assert same(view, expected)


def check_nothing_waits(rank: int, size: int) -> None:
    """A call returns before the other ranks have made theirs."""
    if rank == 0:
        result = bps.allreduce(full((2,), 1), name="late")
    bps.barrier(name="rank 0 has gone on")
    if rank != 0:
        result = bps.allreduce(full((2,), 1), name="late")
    assert same(result, 1)


def check_layouts_of_onednn(rank: int, size: int) -> None:
    """The memory of what convolutions bring is not plain."""
    layer = mx.gluon.nn.Conv2D(16, 3, padding=1, in_channels=16)
    layer.initialize(mx.init.One())
    images = full((2, 16, 8, 8), rank + 1)
    expected = layer(images).asnumpy() / (rank + 1) * (size * (size + 1) / 2)
    output = layer(images)
    total = bps.allreduce(output, op=bps.Sum, name="conv")
    assert np.allclose(total.asnumpy(), expected)
    bps.allreduce_(output, op=bps.Sum, name="conv in place")
    assert np.allclose(output.asnumpy(), expected)
    layer(images).wait_to_read()  # without gradients the weights get such a layout, too
    bps.broadcast_parameters(layer.collect_params(), root_rank=0)


def check_groups(rank: int, size: int) -> None:
    mine = [full((2, 3), rank), of([5], "int32") * (rank + 1), full((4,), rank)]
    sums = bps.grouped_allreduce(mine, op=bps.Sum, name="group")
    total = size * (size - 1) // 2
    assert [s.shape for s in sums] == [(2, 3), (1,), (4,)]
    assert same(sums[0], total)
    assert same(sums[1], 5 * (total + size))
    assert same(sums[2], total)
    assert same(mine[0], rank)
    back = bps.grouped_allreduce_(mine, op=bps.Max, name="group")
    assert back[0] is mine[0]
    assert same(mine[0], size - 1)
    assert same(mine[1], 5 * size)
    assert bps.grouped_allreduce([], name="none") == []
    with mx.util.np_shape(True):  # else MXNet has no arrays without elements
        some = (nd.zeros((0, 2)), full((3,), rank))
        none, sums = bps.grouped_allreduce((one for one in some), op=bps.Sum, name="some")
        assert none.shape == (0, 2)
        assert same(sums, total)
    rows = bps.grouped_allgather(
        [of(np.full((rank, 2), rank), "float32"), of([rank], "int32")], name="rows"
    )
    assert rows[0].shape == (total, 2)
    assert rows[1].asnumpy().tolist() == list(range(size))
    parts = bps.grouped_reducescatter([full((size,), rank), full((1, 2), 1)], bps.Sum, name="parts")
    assert same(parts[0], total)
    assert parts[1].shape == ((1 if rank == 0 else 0), 2)
    refused(bps.MismatchError, "tensors", lambda: bps.grouped_allreduce(
        mine[: 2 if rank == 0 else 3], name="other group"))  # fmt: skip


def check_rows(rank: int, size: int) -> None:
    ragged = bps.allgather(of(np.full((rank, 2), rank), "float32"), name="ragged")
    assert ragged.shape == (size * (size - 1) // 2, 2)
    rows, counts = bps.alltoall(
        nd.arange(size * 2), splits=of([2] * size, "int32"), name="splits", priority=3
    )
    assert counts.dtype == np.int32
    assert counts.asnumpy().tolist() == [2] * size
    assert rows.asnumpy().tolist() == [2 * rank, 2 * rank + 1] * size
    empty, counts = bps.alltoall(of(np.zeros((0, 3)), "float32"), splits=[0] * size, name="nothing")
    assert empty.shape == (0, 3)
    few = bps.reducescatter(full((1, 2), 1), name="few")
    assert few.shape == ((1 if rank == 0 else 0), 2)
    objects = bps.allgather_object({"rank": rank})
    assert [one["rank"] for one in objects] == list(range(size))
    assert bps.broadcast_object([rank], root_rank=size - 1) == [size - 1]
    for splits in (of([1.0] * size, "float32"), of([1] * size, "int64")):
        refused(mx.MXNetError, "splits", lambda s=splits: bps.alltoall(nd.arange(size), splits=s))
    refused(ValueError, "rows", lambda: bps.reducescatter(nd.array(1.0).reshape(())))


def check_numpy_arrays_of_mxnet(rank: int, size: int) -> None:
    mine = mx.np.ones((2, 2)) * rank
    total = bps.allreduce(mine, op=bps.Sum, name="np")
    assert isinstance(total, mx.np.ndarray)
    assert same(total, size * (size - 1) // 2)
    bps.allreduce_(mine, op=bps.Sum, name="np")
    assert same(mine, size * (size - 1) // 2)
    assert isinstance(bps.allgather(mine, name="np"), mx.np.ndarray)


def check_sets(rank: int, size: int) -> None:
    odd = bps.add_process_set([r for r in range(size) if r % 2 == 1])
    if odd.included():
        mine = full((2,), rank)
        total = bps.allreduce(mine, op=bps.Sum, process_set=odd, name="odd")
        assert same(total, sum(odd.ranks))
        assert same(bps.broadcast(mine, odd.ranks[-1], process_set=odd), odd.ranks[-1])
        refused(mx.MXNetError, "root_rank", lambda: bps.broadcast(mine, 0, process_set=odd))
    else:
        refused(mx.MXNetError, "not in", lambda: bps.allreduce(full((2,), 1), process_set=odd))
    bps.remove_process_set(odd)


MXNET = Framework(
    bps,
    ones=lambda shape, dtype: of(np.ones(shape), dtype),
    read=lambda result: [
        one.asnumpy().tolist()
        for one in (result if isinstance(result, (list, tuple)) else [result])
    ],
    also=mx.MXNetError,
    without=frozenset(("scalar",)),  # every array has a dimension
)


def check_disagreements(rank: int, size: int) -> None:
    """Every rank is told, with errors of both kinds, and the names are free afterwards."""
    disagreements.check(MXNET)


def check_absent_names(rank: int, size: int) -> None:
    disagreements.check_absent_names(MXNET)


def check_mismatches(rank: int, size: int) -> None:
    first = rank == 0
    in_place = full((2 if first else 3,), 1)
    refused(bps.MismatchError, "disagree", lambda: bps.allreduce_(in_place, name="in place"))
    names = {f"{rank}": full((2,), 1)}
    refused(bps.MismatchError, "parameters", lambda: bps.broadcast_parameters(names) or [])
    assert same(bps.allreduce(full((2,), 1), name="in place"), 1)


def check_mistakes(rank: int, size: int) -> None:
    """A rank sees these alone."""
    ones = full((2,), 1)
    refused(mx.MXNetError, "NDArray", lambda: bps.allreduce(ones.asnumpy()) or [])
    sparse = ones.reshape((2, 1)).tostype("row_sparse")
    refused(mx.MXNetError, "row_sparse", lambda: bps.allreduce(sparse))
    refused(AssertionError, "Adasum", lambda: bps.allreduce(ones, op=bps.Adasum))
    refused(AssertionError, "Sum", lambda: bps.reducescatter(ones, op=bps.Max))
    refused(ValueError, "supersedes", lambda: bps.allreduce(ones, average=True, op=bps.Sum))
    refused(ValueError, "list", lambda: bps.broadcast_parameters([ones]))


def check_two_under_one_name(rank: int, size: int) -> None:
    # A second operation under a name that is on its way fails; the first is not disturbed.
    ones = full((2,), 1)
    first = bps.allreduce(ones, name="twice") if rank == 0 else None
    bps.barrier(name="rank 0 has begun")
    if rank == 0:
        refused(bps.DuplicateNameError, "twice", lambda: bps.allreduce(ones, name="twice"))
    bps.barrier(name="rank 0 was told")
    if rank != 0:
        first = bps.allreduce(ones, name="twice")
    assert same(first, 1)


def check_errors_reach_what_depends_on_them(rank: int, size: int) -> None:
    mine = full((2 + (rank == 0),), 1)
    refused(
        bps.MismatchError,
        "broken",
        lambda: (bps.allreduce(mine, name="broken") * 2).sum() + 1,
    )
    both = [full((2,), 1), of([1] * (1 + rank), "int32")]
    # MXNet raises an error once, with whatever is read first of what depends on it.
    refused(
        mx.MXNetError, "in group", lambda: bps.grouped_allreduce(both, name="in group")[rank % 2]
    )


def check_join(rank: int, size: int) -> None:
    for number in range(rank + 1):
        total = bps.allreduce(full((2,), 1), op=bps.Sum, name=f"before join {number}")
        assert same(total, size - number)
    assert bps.join() == size - 1


def main() -> None:
    for _ in range(2):  # init after shutdown works
        bps.init()
        rank, size = bps.rank(), bps.size()
        for name, check in sorted(globals().items()):
            is_left_out = (size == 1 and name in FOR_SEVERAL) or (BLOCKS and name in FOR_ENGINE)
            if name.startswith("check_") and not is_left_out:
                check(rank, size)
                bps.barrier(name=f"after {name}")
        bps.shutdown()
    print(f"all right {rank}/{size}")


# One rank has nobody to disagree with.
FOR_SEVERAL = ("check_mismatches", "check_mistakes", "check_errors_reach_what_depends_on_them",
               "check_sets", "check_groups", "check_two_under_one_name")  # fmt: skip
# NaiveEngine ends each operation before it returns.
BLOCKS = os.environ.get("MXNET_ENGINE_TYPE") == "NaiveEngine"
FOR_ENGINE = ("check_nothing_waits", "check_two_under_one_name")

main()
