"""What ranks can disagree about, what they can do wrong, and the error of each: one list for all
frameworks. The worker of a framework describes the framework, and goes through the list."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from byteps.common.errors import (
    BytepsError,
    DeadlineError,
    InvalidArgumentError,
    MismatchError,
    OutOfStepError,
)

# A function of a tensor becomes another one: compiled, or in a graph.
Way = Callable[[Callable[[Any], Any]], Callable[[Any], Any]]


def as_it_is(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return function


def same_error(error: BaseException) -> BaseException:
    return error


@dataclass(frozen=True)
class Framework:
    """What the list needs of a framework."""

    bps: Any
    ones: Callable[[tuple[int, ...], str], Any]  # a tensor of a shape and a type
    read: Callable[[Any], list[Any]]  # waits for a result; returns its numbers as nested lists
    # What TensorFlow raises for an error of byteps.
    kinds: Mapping[type[BytepsError], type[BaseException]] = field(default_factory=dict)
    also: type[BaseException] = BaseException  # what every error is besides
    own: Callable[[BaseException], BaseException | None] = same_error  # byteps' error in another
    ways: Mapping[str, Way] = field(default_factory=lambda: {"": as_it_is})
    only_eager: frozenset[str] = frozenset()  # calls that the other ways refuse
    without: frozenset[str] = frozenset()  # what has no place in the framework

    def error(self, call: Callable[[], Any]) -> BaseException | None:
        try:
            self.read(call())
        except Exception as error:
            return error
        return None

    def expect(self, what: str, call: Callable[[], Any], *kinds: type[BytepsError]) -> str:
        """Expect an error of one of some kinds, and of that of the framework; return its text."""
        error = self.error(call)
        assert error is not None, f"{what}: no error"
        own = self.own(error)
        assert isinstance(own, kinds), (what, error, own)
        wanted = [self.kinds.get(kind, kind) for kind in kinds]
        assert isinstance(error, tuple(wanted)), (what, type(error), error)
        assert isinstance(error, self.also), (what, type(error), error)
        return str(own)


# Mistakes in an argument that not every way of a framework takes.
OF_SPLITS = frozenset(
    ("too many splits", "splits of more rows", "split below 0", "table of splits")
)


@dataclass(frozen=True)
class Call:
    """A call of one rank with a tensor of ones."""

    function: Callable[..., Any]
    shape: tuple[int, ...] = (2,)
    dtype: str = "float32"


def disagreements(bps: Any, is_odd: bool, size: int, some: Any) -> Iterator[tuple[str, Call]]:
    """What the odd rank does in another way than the others. `some`: a process set with it."""
    one, two = (1, 0) if is_odd else (0, 1)
    reduce = bps.allreduce
    scatter = partial(bps.reducescatter, op=bps.Sum)
    yield "shape", Call(reduce, (3 + one,))
    yield "dimensions", Call(reduce, (2 + one, 2 + two))
    yield "scalar", Call(reduce, () if is_odd else (1,))
    yield "type", Call(reduce, dtype="int32" if is_odd else "float32")
    yield "reduction", Call(partial(reduce, op=bps.Max if is_odd else bps.Sum))
    yield "operation", Call(bps.allgather if is_odd else reduce)
    copy = partial(bps.broadcast, root_rank=0)
    yield "other operation", Call(copy if is_odd else reduce)
    yield "factor before", Call(partial(reduce, prescale_factor=1.0 + one))
    yield "factor after", Call(partial(reduce, postscale_factor=1.0 + one))
    yield "root", Call(partial(bps.broadcast, root_rank=one))
    yield "shape of broadcast", Call(copy, (3 + one,))
    yield "columns of allgather", Call(bps.allgather, (2, 2 + one))
    yield "type of allgather", Call(bps.allgather, dtype="int32" if is_odd else "float32")
    yield "columns of alltoall", Call(bps.alltoall, (size, 2 + one))
    yield "type of alltoall", Call(bps.alltoall, (size,), "int32" if is_odd else "float32")
    yield "shape of reducescatter", Call(scatter, (size, 2 + one))
    yield "rows of reducescatter", Call(scatter, (size + one, 2))
    other = partial(scatter, op=bps.Average if is_odd else bps.Sum)
    yield "reduction of reducescatter", Call(other, (size,))
    if some is not None:
        among = {"process_set": some} if is_odd else {}
        yield "process set", Call(partial(reduce, **among))
        yield "process set of allgather", Call(partial(bps.allgather, **among))


def mistakes(bps: Any, size: int) -> Iterator[tuple[str, Call]]:
    """What a rank sees alone, before anything travels."""
    yield "root too large", Call(partial(bps.broadcast, root_rank=size))
    yield "root below 0", Call(partial(bps.broadcast, root_rank=-1))
    yield "too many splits", Call(partial(bps.alltoall, splits=[1] * (size + 1)), (size + 1,))
    yield "splits of more rows", Call(partial(bps.alltoall, splits=[2] * size), (size,))
    yield "split below 0", Call(partial(bps.alltoall, splits=[-1] + [1] * (size - 1)), (size,))
    yield "table of splits", Call(partial(bps.alltoall, splits=[[1] * size]), (size,))
    if size > 1:
        yield "rows that cannot be dealt", Call(bps.alltoall, (size + 1,))
    yield "rows of a scalar", Call(bps.reducescatter, ())


def check(framework: Framework) -> None:
    """Go through the list; names are free again, and everything works, after each error."""
    bps = framework.bps
    rank, size = bps.rank(), bps.size()
    for name, call in mistakes(bps, size):
        for way, made in framework.ways.items():
            if way and name in framework.only_eager:
                continue
            program = made(partial(call.function, name=f"{name} {way}"))
            run = partial(program, framework.ones(call.shape, call.dtype))
            framework.expect(f"{name} {way}", run, InvalidArgumentError)
    if size == 1:
        return
    some = bps.add_process_set([0, size - 1]) if size > 2 else None
    for name, call in disagreements(bps, rank == size - 1, size, some):
        if name in framework.without:
            continue
        for way, made in framework.ways.items():
            label = f"ranks disagree: {name} {way}"
            program = made(partial(call.function, name=label))
            for _ in range(2):
                run = partial(program, framework.ones(call.shape, call.dtype))
                text = framework.expect(label, run, MismatchError)
                sides = set(re.findall(r"rank (\d) has", text))
                assert str(size - 1) in sides, text
                assert len(sides) > 1, text
        total = partial(bps.allreduce, name=f"ranks disagree: {name} ", op=bps.Sum)
        assert framework.read(total(framework.ones((2,), "float32"))) == [[size] * 2], name
    if some is not None:
        if not some.included():
            among = partial(bps.allreduce, name="not in the set", process_set=some)
            for way, made in framework.ways.items():
                run = partial(made(among), framework.ones((2,), "float32"))
                framework.expect(f"not in the set {way}", run, InvalidArgumentError)
        bps.barrier(name="all have asked")
        bps.remove_process_set(some)


def check_absent_names(framework: Framework, timeout_s: float = 10) -> None:
    """A name that some ranks never use is an error on the ranks that wait for it, in a session of
    its own that has a time limit."""
    bps = framework.bps
    if bps.size() == 1:
        return
    bps.barrier(name="before the time limit")
    bps.shutdown()
    os.environ["BYTEPS_OPERATION_TIMEOUT"] = str(timeout_s)
    bps.init()
    del os.environ["BYTEPS_OPERATION_TIMEOUT"]
    for way, made in framework.ways.items():
        mine = "of_rank_0" if bps.rank() == 0 else "of_the_others"
        program = made(partial(bps.allreduce, name=f"{mine} {way}"))
        run = partial(program, framework.ones((2,), "float32"))
        text = framework.expect(f"absent {way}", run, OutOfStepError, DeadlineError)
        assert mine in text, text
    bps.barrier(name="all have heard")  # who leaves before is a lost peer to the others
    bps.shutdown()
    bps.init()
