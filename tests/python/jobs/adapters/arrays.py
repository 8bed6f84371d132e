"""A worker: every operation of byteps.numpy, with results that are known in advance."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import disagreements
import numpy as np
from disagreements import Framework

import byteps.numpy as bps

TYPES = ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8")


class Exporter:
    """What speaks DLPack and is no array."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: object) -> object:
        return self._array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def refused(kind: type[Exception], word: str, call: Callable[[], object]) -> None:
    """Expect an error of a kind, with a word in its text."""
    text = ""
    try:
        call()
    except kind as error:
        text = str(error)
    assert word in text, f"{word} is not in {text!r}"


def check_types(rank: int, size: int) -> None:
    for dtype in TYPES:
        mine = np.full((3, 2), rank + 1, dtype)
        total = bps.allreduce(mine, name=f"sum {dtype}", op=bps.Sum)
        assert total.dtype == mine.dtype, dtype
        assert (total == size * (size + 1) // 2).all(), (dtype, total)
        assert (mine == rank + 1).all()
        rows = bps.allgather(mine, name=f"rows {dtype}")
        assert rows.dtype == mine.dtype
        assert rows[:, 0].tolist() == [r + 1 for r in range(size) for _ in range(3)]
        copied = bps.broadcast(mine, size - 1, name=f"copy {dtype}")
        assert (copied == size).all()
    assert bps.allreduce(np.array([rank == 0]), name="any", op=bps.Max).tolist() == [True]
    for dtype in ("uint16", "uint32", "uint64"):  # servers do not add them up
        mine = np.full((2, 2), rank + 1, dtype)
        copied = bps.broadcast(mine, size - 1, name=f"copy {dtype}")
        rows = bps.allgather(mine, name=f"rows {dtype}")
        dealt = bps.alltoall(np.full(size, rank, dtype), name=f"dealt {dtype}")
        (both,) = bps.grouped_allgather([mine], name=f"group {dtype}")
        assert copied.dtype == rows.dtype == dealt.dtype == both.dtype == dtype
        assert (copied == size).all()
        assert rows.tolist() == both.tolist() == [[r + 1] * 2 for r in range(size) for _ in "ab"]
        assert dealt.tolist() == list(range(size))
        bps.broadcast_parameters({"mine": mine}, root_rank=0)
        bps.check_replicas({"mine": mine})
        refused(bps.InvalidArgumentError, dtype, partial(bps.allreduce, mine))
    if size > 1:
        odd = np.ones(2, "uint32" if rank == 0 else "int32")
        refused(bps.MismatchError, "uint32", partial(bps.broadcast, odd, 0, name="odd kind"))


def check_that_frameworks_can_take_results_over(rank: int, size: int) -> None:
    """Results begin where frameworks share memory, whatever their sizes and those before them."""
    calls: dict[str, Callable[[np.ndarray], object]] = {
        "sum": partial(bps.allreduce, op=bps.Sum),
        "scaled sum": partial(bps.allreduce, op=bps.Sum, postscale_factor=2.0),
        "mean": bps.push_pull,
        "copy": partial(bps.broadcast, root_rank=0),
        "rows": bps.allgather,
        "dealt": lambda array: bps.alltoall(array, [1] * (size - 1) + [len(array) - size + 1]),
        "part": partial(bps.reducescatter, op=bps.Sum),
        "scaled part": partial(bps.reducescatter, op=bps.Sum, postscale_factor=2.0),
        "sums": lambda array: bps.grouped_allreduce([array, array[1:]], op=bps.Sum),
        "all rows": lambda array: bps.grouped_allgather([array, array[1:]]),
        "parts": lambda array: bps.grouped_reducescatter([array, array[1:]], op=bps.Sum),
    }
    for dtype in ("uint8", "float32"):
        for length in (17, 5001):
            memory = np.ones(length + 1, dtype)[1:]  # odd, too
            for name, call in calls.items():
                found = call(memory)
                for one in found if isinstance(found, (list, tuple)) else [found]:
                    is_counts = one.dtype == np.int32
                    assert is_counts or one.ctypes.data % 64 == 0, (name, dtype, length)


def check_averages_of_integers(rank: int, size: int) -> None:
    mine = np.array([-3 - rank, 3 + rank, -size], np.int32)
    total = -3 * size - size * (size - 1) // 2
    cut = int(total / size)
    assert bps.allreduce(mine, name="cut").tolist() == [cut, -cut, -size]
    assert bps.grouped_allreduce([mine, mine], name="cuts")[1].tolist() == [cut, -cut, -size]
    assert bps.push_pull(mine, name="down").tolist() == [total // size, -total // size, -size]


def check_factors(rank: int, size: int) -> None:
    options = {"op": bps.Sum, "prescale_factor": 0.5, "postscale_factor": 3.0}
    for dtype in ("float32", "float16", "int32"):
        result = bps.allreduce(np.full(4, 2, dtype), name=f"scaled {dtype}", **options)
        assert result.dtype == np.dtype(dtype)
        assert (result == 3 * size).all()
    numbers = np.arange(99)
    thirds = (numbers.astype(np.float32) * np.float32(1 / 3)).astype(np.float16)  # rounded once
    mine = numbers.astype(np.float16)
    found = bps.allreduce(mine, name="thirds", op=bps.Max, prescale_factor=1 / 3)
    assert found.tolist() == thirds.tolist()
    yes = np.array([True])
    refused(
        bps.InvalidArgumentError,
        "scaled",
        lambda: bps.allreduce(yes, name="bool", prescale_factor=2.0),
    )


def check_in_place(rank: int, size: int) -> None:
    whole = np.zeros((4, 6), np.float32)
    part = whole[:, ::2]
    part[...] = rank
    assert bps.allreduce_(part, name="part", op=bps.Sum) is part
    assert (whole[:, ::2] == size * (size - 1) / 2).all()
    assert (whole[:, 1::2] == 0).all()
    big_endian = np.full(3, float(rank), ">f4")
    bps.push_pull_inplace(big_endian, average=False, name="big endian")
    assert big_endian.tolist() == [size * (size - 1) / 2] * 3
    weights = np.full(5, rank, np.float64)
    bps.broadcast_(weights, 0, name="weights")
    assert weights.tolist() == [0] * 5
    empty, number = np.zeros((0, 3)), np.array(float(rank))
    assert bps.allreduce_(empty, name="empty") is empty
    bps.allreduce_(number, name="without dimensions", op=bps.Sum)
    assert number == size * (size - 1) / 2
    for array in (np.broadcast_to(np.float32(1), (3,)), [1.0]):
        refused(
            bps.InvalidArgumentError, "in place", partial(bps.allreduce_, array, name="read-only")
        )


def check_what_is_no_array(rank: int, size: int) -> None:
    assert bps.allreduce(float(rank), name="number").shape == ()
    assert bps.allreduce([rank, 1], name="list", op=bps.Sum).tolist() == [
        size * (size - 1) // 2,
        size,
    ]
    exported = Exporter(np.full(3, rank, np.float32))
    assert bps.allreduce(exported, name="dlpack", op=bps.Max).tolist() == [size - 1] * 3
    masked = np.ma.masked_array([1.0, 2.0], [False, True])
    for value in ({}, "text", np.array([None]), np.zeros(2, np.complex64), masked):
        refused(
            bps.InvalidArgumentError,
            "cannot be exchanged",
            partial(bps.allreduce, value, name="nothing"),
        )


def check_rows(rank: int, size: int) -> None:
    mine = np.full((rank, 2), rank, np.float32)
    rows = bps.allgather(mine, name="uneven")
    assert rows[:, 0].tolist() == [r for r in range(size) for _ in range(r)]
    assert bps.allgather(np.int64(rank), name="numbers").tolist() == list(range(size))
    both = bps.grouped_allgather([mine, np.full((1, 3), rank, np.int16)], name="both")
    assert (both[0] == rows).all()
    assert both[1].tolist() == [[r] * 3 for r in range(size)]
    assert both[1].dtype == np.int16
    transposed = np.arange(6, dtype=np.float32).reshape(2, 3).T
    assert bps.allgather(transposed, name="t").tolist() == transposed.tolist() * size


def check_scatter(rank: int, size: int) -> None:
    rows = size + 1
    array = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
    begin, count = (0, 2) if rank == 0 else (rank + 1, 1)
    mine = bps.reducescatter(array, name="scatter", op=bps.Sum)
    assert mine.tolist() == (array[begin : begin + count] * size).tolist()
    many = bps.grouped_reducescatter([array, array.astype(np.int32)], name="many", op=bps.Max)
    assert many[0].tolist() == array[begin : begin + count].tolist()
    assert many[1].dtype == np.int32
    assert many[1].tolist() == many[0].tolist()


def check_alltoall(rank: int, size: int) -> None:
    rows = bps.alltoall(np.full((size, 1), rank, np.int32), name="all to all")
    assert rows[:, 0].tolist() == list(range(size))
    for splits in (None, [2] * size):  # a handle gives the counts without splits, too
        rows, counts = bps.synchronize(bps.alltoall_async(np.arange(2 * size), splits))
        assert rows.tolist() == [2 * rank, 2 * rank + 1] * size
        assert counts.tolist() == [2] * size
        assert counts.dtype == np.int32
    splits = np.arange(size)
    rows, counts = bps.alltoall(np.full(splits.sum(), rank, np.float64), splits, name="uneven")
    assert counts.tolist() == [rank] * size
    assert rows.tolist() == [r for r in range(size) for _ in range(rank)]


def check_sets(rank: int, size: int) -> None:
    if size < 3:
        return  # the set would be that of all ranks
    first = bps.add_process_set([0, size - 1])
    if first.included():
        total = bps.allreduce(np.float64([rank]), name="some", op=bps.Sum, process_set=first)
        assert total.tolist() == [size - 1]
    bps.remove_process_set(first)


def check_weights(rank: int, size: int) -> None:
    weights = {"a": np.full(3, rank, np.float32), "b": np.full((2, 2), rank, np.int64)}
    if size > 1:
        refused(bps.ReplicasDifferError, "'a'", lambda: bps.check_replicas(weights))
    bps.broadcast_parameters(weights, root_rank=size - 1)
    assert (weights["b"] == size - 1).all()
    bps.check_replicas(weights)


def check_handles_and_errors(rank: int, size: int) -> None:
    handles = [bps.push_pull_async(np.float32([i]), False, f"h{i}") for i in range(8)]
    for i, handle in enumerate(handles):
        assert bps.synchronize(handle).tolist() == [i * size]
        assert bps.members_of(handle) == list(range(size))
    assert bps.synchronize(handles[0]) is None


def check_forms_with_handles_and_groups(rank: int, size: int) -> None:
    total, everybody = size * (size - 1) // 2, list(range(size))
    mine = np.full(2 * size, rank, np.int64)
    kept = {name: mine.copy() for name in ("sum in place", "push in place", "copy in place")}
    groups = [[mine.copy(), np.float32([rank])] for _ in range(2)]
    handles = {
        "sum": bps.allreduce_async(mine, name="a", op=bps.Sum),
        "sum in place": bps.allreduce_async_(kept["sum in place"], name="b", op=bps.Sum),
        "push in place": bps.push_pull_async_inplace(kept["push in place"], False, "c"),
        "copy": bps.broadcast_async(mine, size - 1, name="d"),
        "copy in place": bps.broadcast_async_(kept["copy in place"], size - 1, name="e"),
        "rows": bps.allgather_async(mine[:1], name="f"),
        "part": bps.reducescatter_async(mine, name="g", op=bps.Sum),
        "group": bps.grouped_allreduce_async(groups[0], name="h", op=bps.Sum),
        "group in place": bps.grouped_allreduce_async_(groups[0], name="i", op=bps.Sum),
        "group of rows": bps.grouped_allgather_async([mine[:1], mine[:2]], name="j"),
        "group of parts": bps.grouped_reducescatter_async([mine, mine], name="k", op=bps.Sum),
    }
    found = {name: bps.synchronize(handle) for name, handle in handles.items()}
    assert all(found[name] is array for name, array in kept.items())
    for name in ("sum", "sum in place", "push in place"):
        assert found[name].tolist() == [total] * 2 * size
    for name in ("copy", "copy in place"):
        assert found[name].tolist() == [size - 1] * 2 * size
    assert found["rows"].tolist() == found["group of rows"][0].tolist() == everybody
    for part in (found["part"], *found["group of parts"]):
        assert part.tolist() == [total] * 2
    assert [one.tolist() for one in found["group"]] == [[total] * 2 * size, [total]]
    assert [one.tolist() for one in groups[0]] == [[total] * 2 * size, [total]]
    bps.grouped_allreduce_(groups[1], name="l", op=bps.Max)
    assert groups[1][1].tolist() == [size - 1]
    one, _ = bps.grouped_allreduce(groups[1], name="m", op=bps.Sum)
    assert one.tolist() == [(size - 1) * size] * 2 * size
    late = bps.push_pull_async(mine, name="polled") if rank == 0 else None
    assert size == 1 or late is None or not bps.poll(late)
    bps.barrier(name="rank 0 has looked")
    bps.synchronize(late if late is not None else bps.push_pull_async(mine, name="polled"))
    assert bps.allgather_object({"rank": rank}) == [{"rank": r} for r in everybody]
    assert bps.broadcast_object([rank], root_rank=size - 1) == [size - 1]


NUMPY = Framework(
    bps,
    ones=lambda shape, dtype: np.ones(shape, dtype),
    read=lambda result: [
        np.asarray(one).tolist() for one in (result if isinstance(result, tuple) else [result])
    ],
)


def check_disagreements(rank: int, size: int) -> None:
    disagreements.check(NUMPY)


def check_absent_names(rank: int, size: int) -> None:
    disagreements.check_absent_names(NUMPY)


def check_join(rank: int, size: int) -> None:
    for _ in range(rank + 1):
        bps.allreduce(np.ones(2, np.float32), name="while there is data")
    assert bps.join() == size - 1


if __name__ == "__main__":
    for _ in range(2):  # init after shutdown works
        bps.init()
        for name, check in sorted(globals().items()):
            if name.startswith("check_"):
                check(bps.rank(), bps.size())
                bps.barrier(name=f"after {name}")
        number = (bps.rank(), bps.size())
        bps.shutdown()
    print(f"all right {number[0]}/{number[1]}")
