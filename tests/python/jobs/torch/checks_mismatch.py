"""What ranks disagree about is the same error on every rank, and the next operation works."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "adapters"))

import disagreements
import torch
from disagreements import Framework

import byteps.torch as bps
from byteps.common.session import names


def expect(kind: type[Exception], call: Callable[[], object], *texts: str) -> None:
    try:
        call()
    except kind as error:
        for text in texts:
            assert text in str(error), (text, str(error))  # noqa: PT017
    else:
        raise AssertionError(f"no {kind.__name__} on this rank")
    assert (
        bps.allreduce(torch.ones(2), name="after an error", op=bps.Sum).tolist() == [bps.size()] * 2
    )


def differ(
    name: str, first: Callable[[], object], others: Callable[[], object], *texts: str
) -> None:
    """Rank 0 makes another call than the others; twice, since the name must go on working."""
    for _ in range(2):
        expect(
            bps.MismatchError, first if bps.rank() == 0 else others, name, "rank 0", "rank", *texts
        )


TORCH = Framework(
    bps,
    ones=lambda shape, dtype: torch.ones(shape, dtype=getattr(torch, dtype)),
    read=lambda result: [
        one.tolist() for one in (result if isinstance(result, tuple) else [result])
    ],
)


def check_disagreements(rank: int, size: int) -> None:
    disagreements.check(TORCH)


def check_disagreements_about_reducescatter(rank: int, size: int) -> None:
    if size > 1:
        differ(
            "one factor",
            lambda: bps.reducescatter(torch.ones(size), name="one factor", postscale_factor=3.0),
            lambda: bps.reducescatter(torch.ones(size), name="one factor"),
            "postscale_factor 3.0",
        )
        differ(
            "combined",
            lambda: bps.reducescatter(torch.ones(size), name="combined", op=bps.Sum),
            lambda: bps.reducescatter(torch.ones(size), name="combined", op=bps.Max),
            "sum", "max",
        )  # fmt: skip


def check_texts(rank: int, size: int) -> None:
    """What an error shows of both sides."""
    if size < 2:
        return
    for name, first, others, texts in (
        ("factors", {"prescale_factor": 0.5}, {"prescale_factor": 0.25}, ("0.5", "0.25")),
        ("kinds", {"op": bps.Sum}, {"op": bps.Max}, ("sum", "max")),
        ("types", {"tensor": torch.ones(2).long()}, {}, ("int64[2]", "float32[2]")),
    ):
        calls = [
            partial(bps.allreduce, **{"tensor": torch.ones(2), "name": name, **more})
            for more in (first, others)
        ]
        differ(name, *calls, *texts)


def check_groups(rank: int, size: int) -> None:
    """Another number of tensors, other shapes with as many elements, other types."""
    if size < 2:
        return
    ones, whole = torch.ones(6), torch.ones(6, dtype=torch.int64)
    for name, first, others, texts in (
        ("counts", [ones, ones], [ones], ("2 tensors", "1 tensors")),
        ("cuts", [ones, ones[:2]], [ones[:4], ones[:4]], ("[6]", "[4]")),
        ("forms", [ones.view(2, 3)], [ones.view(3, 2)], ("[2, 3]", "[3, 2]")),
        ("mixture", [ones, whole], [ones], ("int64", "1 tensors")),
        ("order", [ones, whole], [whole, ones], ("float32", "int64")),
        ("nothing", [], [ones], ("0 tensors", "1 tensors")),
    ):
        for call in (bps.grouped_allreduce, bps.grouped_allgather, bps.grouped_reducescatter):
            if call is bps.grouped_allgather and name == "cuts":
                continue  # numbers of rows may differ
            whole_name = f"{name} {call.__name__}"
            seen = texts if call is not bps.grouped_allgather else ()
            one, other = (partial(call, tensors, name=whole_name) for tensors in (first, others))
            differ(whole_name, one, other, *seen)


def check_device(rank: int, size: int) -> None:
    """A tensor on another device, as another rank would see it: there is none here."""
    if size < 2:
        return
    from byteps.common.operations import call as calls

    original = calls.detail_of
    calls.detail_of = lambda call, device: original(call, "cuda" if rank == 0 else device)
    try:
        call = partial(bps.allreduce, torch.ones(2), name="devices")
        try:
            call()
        except bps.MismatchError as error:
            assert "device cuda" in str(error), error  # noqa: PT017
            assert "device cpu" in str(error), error  # noqa: PT017
        else:
            raise AssertionError("no error")
    finally:
        calls.detail_of = original


def check_objects(rank: int, size: int) -> None:
    if size > 1:
        differ(
            "Object.roots",
            lambda: bps.broadcast_object(1, 0, name="roots"),
            lambda: bps.broadcast_object(1, 1, name="roots"),
            "root 0", "root 1",
        )  # fmt: skip


def check_unnamed(rank: int, size: int) -> None:
    if size > 1:
        differ(
            "noname",
            lambda: bps.allreduce(torch.ones(2)),
            lambda: bps.allreduce(torch.ones(3)),
        )
        # Other calls, as when one rank makes one more.
        differ(
            "noname",
            lambda: bps.allreduce(torch.ones(2)),
            lambda: bps.broadcast(torch.ones(2), 0),
        )
        differ("noname", lambda: bps.allgather(torch.ones(2)), bps.barrier)


def check_unnamed_later(rank: int, size: int) -> None:
    """The names of unnamed calls have come round: a difference is told all the same."""
    if size < 2:
        return
    at_once, names.UNNAMED_CALLS_AT_ONCE = names.UNNAMED_CALLS_AT_ONCE, 64
    for _ in range(3):
        handles = [bps.allreduce_async(torch.ones(2 + i % 2), op=bps.Sum) for i in range(63)]
        for handle in handles:
            assert bps.synchronize(handle)[0].item() == size
    check_unnamed(rank, size)
    names.UNNAMED_CALLS_AT_ONCE = at_once


def check_later(rank: int, size: int) -> None:
    """A rank that calls differently later, when the name is known."""
    if size > 1:
        bps.allreduce(torch.ones(2), name="later")
        differ(
            "later",
            lambda: bps.allreduce(torch.ones(3), name="later"),
            lambda: bps.allreduce(torch.ones(2), name="later"),
        )


def check_changes(rank: int, size: int) -> None:
    """All ranks together use a name for one thing after another, and back."""
    for _ in range(3):
        for op, value in ((bps.Sum, size), (bps.Average, 1), (bps.Sum, size), (bps.Max, 1)):
            for shape in ((2,), (3,), (2, 3), ()):
                result = bps.allreduce(torch.ones(shape), name="changes", op=op)
                assert result.tolist() == torch.full(shape, float(value)).tolist()
        assert bps.broadcast(torch.tensor([rank]), size - 1, name="changes").item() == size - 1
        assert bps.broadcast(torch.tensor([rank]), 0, name="changes").item() == 0
        assert bps.allgather(torch.tensor([rank]), name="changes").tolist() == list(range(size))
        total = bps.allreduce(torch.ones(2), name="changes", op=bps.Sum, prescale_factor=2.0)
        assert total.tolist() == [2.0 * size] * 2
        assert bps.allreduce(torch.ones(2).int(), name="changes", op=bps.Sum).tolist() == [size] * 2


def check_back(rank: int, size: int) -> None:
    """Ranks go back to different things of before: nobody asks for anything new."""
    if size > 1:
        total = partial(bps.allreduce, torch.ones(2), name="back", op=bps.Sum)
        mean = partial(bps.allreduce, torch.ones(2), name="back", op=bps.Average)
        for _ in range(2):
            assert total().tolist() == [size] * 2
            assert mean().tolist() == [1] * 2
            mine, others = (total, "sum"), (mean, "average")
            if rank % 2:
                mine, others = others, mine
            expect(bps.MismatchError, mine[0], "back", mine[1], others[1])


def check_late(rank: int, size: int) -> None:
    """A rank that comes late makes no mistake."""
    for op in (bps.Sum, bps.Max, bps.Sum):
        if rank == size - 1:
            time.sleep(1.2)  # tidy-allow(sleep): lateness is what is tried
        result = bps.allreduce(torch.ones(2), name="late", op=op).tolist()
        assert result == [size if op == bps.Sum else 1] * 2


def check_sets(rank: int, size: int) -> None:
    """One rank uses a name among all, another one in a process set that has both."""
    if size < 2:
        return
    pair = bps.add_process_set([0, 1]) if size > 2 else None
    for _ in range(2):
        among_all = partial(bps.allreduce, torch.ones(2), name="crossing", op=bps.Sum)
        if pair is None:
            differ("crossing", among_all, partial(among_all, op=bps.Average))
            continue
        among_two = partial(among_all, process_set=pair)
        expect(
            bps.MismatchError, among_two if rank == 1 else among_all,
            "crossing", "rank 0 has", "of all ranks", "rank 1 has", "process set",
        )  # fmt: skip
        if pair.included():
            assert among_two().tolist() == [2] * 2
        assert among_all().tolist() == [size] * 2
        bps.barrier()
    if pair is not None:
        open_one = bps.allreduce_async(torch.ones(2), name="both", op=bps.Sum)
        if pair.included():
            try:
                bps.allreduce(torch.ones(2), name="both", process_set=pair)
            except bps.DuplicateNameError as error:
                assert "in process set" in str(error), error  # noqa: PT017
            else:
                raise AssertionError("no error")
        assert bps.synchronize(open_one).tolist() == [size] * 2
        assert bps.remove_process_set(pair)


def check_asynchronous(rank: int, size: int) -> None:
    """Others that are on their way at the same time are not touched."""
    if size > 1:
        before = bps.allreduce_async(torch.ones(3), name="before", op=bps.Sum)
        wrong = bps.allreduce_async(torch.ones(3 if rank == 0 else 4), name="wrong")
        after = bps.allreduce_async(torch.ones(3), name="behind", op=bps.Sum)
        expect(bps.MismatchError, lambda: bps.synchronize(wrong), "wrong")
        for handle in (after, before):
            assert bps.synchronize(handle).tolist() == [size] * 3


def check_duplicate(rank: int, size: int) -> None:
    first = bps.allreduce_async(torch.ones(2), name="twice", op=bps.Sum)
    expect(
        bps.DuplicateNameError,
        lambda: bps.allreduce_async(torch.ones(3), name="twice"),
        "twice", f"rank {rank}", "float32[2]", "float32[3]",
    )  # fmt: skip
    bps.barrier(name="until all are there")
    while not bps.poll(first):
        pass
    # It is complete, but nobody has taken the result.
    expect(bps.DuplicateNameError, lambda: bps.allreduce(torch.ones(2), name="twice"), "twice")
    assert bps.synchronize(first).tolist() == [size] * 2
    assert bps.allreduce(torch.ones(2), name="twice", op=bps.Sum).tolist() == [size] * 2


def check_own_mistakes(rank: int, size: int) -> None:
    """What one rank can see alone is raised before anything is sent."""
    ones = torch.ones(2)
    expect(ValueError, lambda: bps.allreduce(ones, average=True, op=bps.Sum), "Please provide only")
    expect(NotImplementedError, lambda: bps.allreduce(ones, op=bps.Adasum), "Adasum")
    expect(ValueError, lambda: bps.allreduce(ones, op=1), "op is 1")
    expect(ValueError, lambda: bps.allreduce([1.0]), "this is a list")
    expect(ValueError, lambda: bps.grouped_allreduce([ones, 3]), "int")
    expect(ValueError, lambda: bps.allreduce(torch.ones(1, dtype=torch.complex64)), "not supported")
