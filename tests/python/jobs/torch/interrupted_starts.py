"""A worker of two: a signal interrupts rank 0 at each step of Python of the calls that start.

The second rank makes the calls that rank 0 has started, and those that rank 0 makes again. At no
place may an operation be lost, its memory go away while it is open, or its name stay taken.
"""

from __future__ import annotations

import ctypes
import dis
import gc
import os
import signal
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType

import torch

import byteps
import byteps.torch as bps
from byteps.common.session import default

PATIENCE_S = 60.0
PACKAGE = str(Path(byteps.__file__).parent)
# Python looks for signals only at the begin of a function and in these; a signal before another
# step is seen in the next of them.
LOOKS_FOR_SIGNALS = ("CALL", "JUMP_BACKWARD", "JUMP_ABSOLUTE")
EVERY_STEP = os.environ.get("TEST_FULL") == "1"


class Interrupted(BaseException):
    """Raised by the handler of the signal."""


def handler(*_: object) -> None:
    raise Interrupted


class Trip(weakref.ref):
    """Marks the signal as pending when its object goes away: no step of Python comes after that."""

    _as_parameter_ = 0


class Marker:
    """Goes away when the function of the trace returns."""


def at_step(number: int, call: Callable[[], object]) -> bool:
    """Make a call; let the signal be pending before the step `number` of the package's code, or of
    the call itself. Return whether there was such a step."""
    steps = 0
    trip = partial(ctypes.pythonapi.PyErr_SetInterruptEx, int(signal.SIGUSR1))

    def is_counted(frame: FrameType) -> bool:
        if EVERY_STEP:
            return True
        name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        return name.startswith(LOOKS_FOR_SIGNALS)

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal steps
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) and code is not call.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "call" or (event == "opcode" and is_counted(frame)):
            steps += 1
            if steps == number:
                sys.settrace(None)
                marker = Marker()
                marker.trip = Trip(marker, trip)
                return None
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return steps >= number


def open_names() -> list[str]:
    """Return the names of the operations that the library has, or will start."""
    return [
        one.name
        for one in default.current()._open._by_name.values()
        if one.handle or one.is_planned
    ]


class Single:
    """One operation."""

    kind = "single"

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = f"{self.kind}.{number}"
        self.memory = [torch.ones(64)]

    def start(self) -> object:
        return bps.allreduce_async_(self.memory[0], name=self.name, op=bps.Sum)

    def finish(self, handle: object) -> None:
        result = bps.synchronize(handle)
        results = result if isinstance(result, list) else [result]
        assert all((one == bps.size()).all() for one in results), results

    def watched(self) -> list[weakref.ref]:
        return [weakref.ref(tensor) for tensor in self.memory]

    def repeated(self) -> Single:
        """Return a call of the same name."""
        return type(self)(self.number)


class Group(Single):
    """Tensors of one type."""

    kind = "group"

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.memory = [torch.ones(32), torch.ones(16)]

    def start(self) -> object:
        return bps.grouped_allreduce_async_(self.memory, name=self.name, op=bps.Sum)


class Mixed(Group):
    """Tensors of three types: one operation, and two that follow it."""

    kind = "mixed"

    def __init__(self, number: int) -> None:
        super().__init__(number)
        types = (torch.float32, torch.float64, torch.int32)
        self.memory = [torch.ones(16, dtype=dtype) for dtype in types]


class Hook(Single):
    """What a hook of torch starts in a backward."""

    kind = "hook"

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.model = torch.nn.Linear(8, 1, bias=False)
        # Without a gradient of this one a backward does not wait for the others.
        unused = torch.nn.Parameter(torch.ones(1))
        named = [(f"{self.kind}.{number}", self.model.weight), (f"unused.{number}", unused)]
        inner = torch.optim.SGD([self.model.weight, unused], lr=0.0)
        self.optimizer = bps.DistributedOptimizer(inner, named, op=bps.Sum)
        self.memory = []
        self.name = self.optimizer._exchange.entries()[0].unit.call.name

    def start(self) -> object:
        self.model(torch.ones(2, 8)).sum().backward()
        return self.optimizer

    def finish(self, optimizer: object) -> None:
        optimizer.synchronize()
        assert (self.model.weight.grad == 2 * bps.size()).all()

    def watched(self) -> list[weakref.ref]:
        operation = default.current()._open.get(f"byteps.{self.name}")
        return [weakref.ref(tensor) for tensor in operation.memory]

    def repeated(self) -> Single:
        call = Single(0)
        call.name = self.name
        return call


def tell(kind: str, number: int) -> int:
    """Return what rank 0 tells."""
    told = torch.tensor([number])
    return int(bps.broadcast(told, 0, name=f"{kind}.told").item())


def again(things: Single) -> None:
    """Make a call under a name that was used, as soon as the name is free."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            started = things.start()
            break
        except bps.DuplicateNameError:
            assert time.monotonic() < deadline, f"{things.name} is not free again"
            time.sleep(0.001)
    things.finish(started)


def let_go(things: Single) -> None:
    """Drop an optimizer, which is part of circles."""
    if isinstance(things, Hook):
        del things.optimizer, things.model
        gc.collect()


NOT_STARTED, STARTED, FINISHED = range(3)


def interrupt_everywhere(make: type[Single]) -> tuple[int, int]:
    """Rank 0: interrupt the call at each of its steps; return how many there were, and how often
    the operation had started."""
    number = cut = 0
    while True:
        number += 1
        things, kept = make(number), []
        repeated = things.repeated()

        def user(things: Single = things, kept: list[object] = kept) -> None:
            kept.append(things.start())

        interrupted = False
        try:
            there_is_one = at_step(number, user)
        except Interrupted:
            there_is_one = interrupted = True
        if kept:  # the user has the handle
            tell(make.kind, FINISHED)
            things.finish(kept.pop())
        else:
            assert interrupted
            started = bool(open_names())
            cut += started
            memory = things.watched() if started else []
            if started:
                let_go(things)
            del things, user
            assert all(ref() is not None for ref in memory), "memory of an open operation"
            tell(make.kind, STARTED if started else NOT_STARTED)
        again(repeated)
        tell(make.kind, int(there_is_one))
        if not there_is_one:
            return number - 1, cut


def follow(make: type[Single]) -> None:
    """Rank 1: make the calls of rank 0."""
    number = 0
    there_is_one = True
    while there_is_one:
        number += 1
        things = make(number)
        repeated = things.repeated()
        told = tell(make.kind, 0)
        if told != NOT_STARTED:
            started = things.start()
            if told == FINISHED or not isinstance(things, Hook):
                things.finish(started)
            del started
            if told == STARTED:
                let_go(things)
        del things
        again(repeated)
        there_is_one = bool(tell(make.kind, 0))


def expect_nothing_left() -> None:
    """No handle, no name, no memory."""
    gc.collect()
    session, pending = default.current(), default.pending()
    deadline = time.monotonic() + PATIENCE_S
    while session._open._by_name:
        pending.sweep()
        session.sweep()
        assert time.monotonic() < deadline, list(session._open._by_name)
        time.sleep(0.001)
    assert not session._open._ownerless
    assert not pending._pending
    assert not pending._claims


def kinds() -> Iterator[type[Single]]:
    yield from (Single, Group, Mixed, Hook)


if __name__ == "__main__":
    torch.set_num_threads(1)
    signal.signal(signal.SIGUSR1, handler)
    bps.init()
    gc.freeze()
    for make in kinds():
        if bps.rank() == 0:
            steps, cut = interrupt_everywhere(make)
            print(f"{make.kind}: {steps} steps, {cut} of them after the start", flush=True)
            assert steps > cut > 0
        else:
            follow(make)
        expect_nothing_left()
    bps.barrier()
    print(f"all right {bps.rank()}/{bps.size()}")
    bps.shutdown()
