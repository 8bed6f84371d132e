"""Ranks that wait for each other get one error, and the next operation works."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import torch
from checks_mismatch import expect

import byteps.torch as bps


def tell(mine: list[Callable[[], object]], good: int, *texts: str) -> None:
    """Make calls of which the one after `good` others ends in a mismatch."""
    for call in mine[:good]:
        call()
    expect(bps.MismatchError, mine[good], "wait for each other", "has not begun", *texts)


def check_number(rank: int, size: int) -> None:
    """Rank 0 makes one call more than the others before all come together."""
    if size < 2:
        return
    for _ in range(2):
        call = partial(bps.allreduce, torch.ones(2), name="counted", op=bps.Sum)
        last = partial(bps.barrier, name="end")
        mine = [call, call, call, last] if rank == 0 else [call, call, last]
        tell(mine, 2, "rank 0 waits for 'byteps.counted' (sum of float32[2]", "'byteps.end'")
        last()


def check_unnamed_number(rank: int, size: int) -> None:
    """Rank 0 makes a call without a name more than the others; the next ones meet."""
    if size < 2:
        return
    assert bps.allreduce(torch.ones(2), op=bps.Sum).tolist() == [size] * 2
    last = partial(bps.allreduce, torch.ones(3), name="end", op=bps.Sum)
    more = [bps.allreduce_async(torch.ones(2)) for _ in range(2 if rank == 0 else 0)]
    for handle in more:
        expect(bps.OutOfStepError, partial(bps.synchronize, handle), "noname.", "'byteps.end'")
    for _ in range(0 if rank == 0 else 2):
        expect(bps.OutOfStepError, last, "noname.", "'byteps.end'")
    assert bps.allreduce(torch.ones(2), op=bps.Sum).tolist() == [size] * 2
    assert last().tolist() == [size] * 3


def check_unnamed_sets(rank: int, size: int) -> None:
    """Calls without a name, of one rank in a set and of the others among all."""
    if size < 3:
        return
    pair = bps.add_process_set([0, 1])
    for _ in range(2):
        among_all = partial(bps.allreduce, torch.ones(2), op=bps.Sum)
        among_two = partial(among_all, process_set=pair)
        expect(
            bps.OutOfStepError, among_two if rank == 1 else among_all, "noname.", "has not begun"
        )
        if pair.included():
            assert among_two().tolist() == [2] * 2
        assert among_all().tolist() == [size] * 2
    assert bps.remove_process_set(pair)


def swap(rank: int) -> None:
    """Let rank 0 make two calls in the other order."""
    calls: list[Callable[[], object]] = [
        partial(bps.allreduce, torch.ones(2), name=name) for name in ("one", "two")
    ]
    tell(calls if rank == 0 else calls[::-1], 0, "'byteps.one'", "'byteps.two'")
    for call in calls:
        call()


def check_order(rank: int, size: int) -> None:
    """Two calls in different orders."""
    for _ in range(2 if size > 1 else 0):
        swap(rank)


def check_circle(rank: int, size: int) -> None:
    """Three ranks, of which each has two of three process sets and begins with its own one."""
    if size < 3:
        return
    sets = [bps.add_process_set([i, (i + 1) % 3]) for i in range(3)]
    for _ in range(2):
        if rank < 3:
            calls: list[Callable[[], object]] = [
                partial(bps.allreduce, torch.ones(2), name=f"edge {i}", process_set=sets[i])
                for i in (rank, (rank + 2) % 3)
            ]
            try:
                calls[0]()
            except bps.MismatchError as error:
                sides = [f"rank {i} waits for 'byteps.edge {i}'" for i in range(3)]
                assert all(side in str(error) for side in sides), error  # noqa: PT017
            else:
                raise AssertionError("no error")
        bps.barrier()
    for one in sets:
        assert bps.remove_process_set(one)


def check_watchdog(rank: int, size: int) -> None:
    """A thread that makes no calls, like that of a progress bar, hides a mismatch for a while."""
    if size < 2:
        return
    watchdog = threading.Timer(60, lambda: None)
    watchdog.start()
    swap(rank)
    watchdog.cancel()
    watchdog.join()


def check_second_thread(rank: int, size: int) -> None:
    """A process with another thread may still make the other call: that is no mismatch."""
    if size < 2:
        return
    names_of = ("this", "that") if rank == 0 else ("that", "this")
    first, second = (partial(bps.allreduce, torch.ones(2), name=n, op=bps.Sum) for n in names_of)
    results: list[object] = []

    def call_later() -> None:
        time.sleep(2)  # tidy-allow(sleep): longer than a mismatch takes
        results.append(second())

    later = threading.Thread(target=call_later)
    later.start()
    assert first().tolist() == [size] * 2
    later.join()
    assert len(results) == 1
