"""Operations inside programs of XLA: what a custom call says, and what it starts when it runs.

A custom call has two operands, the tensor and a *gate*. The gate is a uint32: the call starts when
it is there, and a call without a name takes its number from it.
"""

from __future__ import annotations

import ctypes
import functools
import json
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import jax

from byteps.common import default
from byteps.common.call import Call, detail_of, request_of, scope_of
from byteps.common.names import unnamed, unnamed_number
from byteps.common.process_sets import ProcessSet, global_process_set, number_of
from byteps.common.types import DataType, Operation

if TYPE_CHECKING:
    from byteps import _core

TARGET = "byteps_exchange"
DEVICE = "cpu"

# XLA's numbers of the types.
_DATA_TYPES = {
    1: DataType.BOOL,
    2: DataType.INT8,
    3: DataType.INT16,
    4: DataType.INT32,
    5: DataType.INT64,
    6: DataType.UINT8,
    10: DataType.FLOAT16,
    11: DataType.FLOAT32,
    12: DataType.FLOAT64,
    16: DataType.BFLOAT16,
}


@dataclass(frozen=True)
class Exchange:
    """What a custom call does: a Call that a program can hold, also for a later session."""

    operation: Operation
    name: str | None = None  # None: the number of its gate
    suffix: str = ""
    root_rank: int = 0
    priority: int = 0
    ranks: tuple[int, ...] | None = None  # of the process set; None: all
    detail: str = ""
    combine: Operation = Operation.SUM
    rows: tuple[int, ...] = ()  # that an allgather or alltoall brings from each rank

    @classmethod
    def of(cls, call: Call) -> Exchange:
        """Return what a call says, without its factors, which the program applies itself."""
        process_set = call.process_set
        is_all = process_set is global_process_set
        number_of(process_set)  # raises if this rank cannot take part
        return cls(
            call.operation,
            call.name,
            root_rank=call.root_rank,
            priority=call.priority,
            ranks=None if is_all else tuple(process_set.ranks),
            detail=detail_of(call, "").removeprefix("; "),
            combine=call.combine,
        )

    def process_set(self) -> ProcessSet:
        """Return the process set in the session of now."""
        return global_process_set if self.ranks is None else default.process_set_with(self.ranks)

    def call(self, number: int) -> Call:
        """Return the call in the session of now; `number` is what its gate says."""
        process_set = self.process_set()
        name = unnamed(_scope(process_set), number) if self.name is None else self.name
        return Call(
            self.operation,
            name + self.suffix,
            self.root_rank,
            self.priority,
            process_set,
            detail=self.detail,
            combine=self.combine,
        )

    def part(self, suffix: str, **changes: Any) -> Exchange:
        """Return a call that belongs to this one, with a name made of its name."""
        return replace(self, suffix=self.suffix + suffix, **changes)

    def text(self) -> str:
        """Return it as a text; see `_exchange_of`."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        return json.dumps({k: v for k, v in given.items() if v != _DEFAULTS.get(k)})


_DEFAULTS = {one.name: one.default for one in fields(Exchange)}


@functools.lru_cache(maxsize=4096)
def _exchange_of(text: str) -> Exchange:
    given = json.loads(text)
    given["operation"] = Operation(given["operation"])
    given["combine"] = Operation(given.get("combine", 0))
    for name in ("ranks", "rows"):
        if name in given:
            given[name] = tuple(given[name])
    return Exchange(**given)


def begin(call: _core.XlaCall) -> None:
    """Start the operation of a custom call. XLA calls this, on any thread, through the native
    module; what it raises becomes the error of the program."""
    what = _exchange_of(call.text)
    (dtype, shape, source), (_, _, gate) = call.inputs
    target = call.outputs[0][2]
    number = ctypes.c_uint32.from_address(gate).value
    wanted = what.call(number)
    session = default.current()
    if what.operation is Operation.BARRIER:
        ctypes.c_uint32.from_address(target).value = number
        request = request_of(session, wanted, DEVICE, DataType.UINT8, ())
    else:
        kind = _DATA_TYPES[dtype]
        request = request_of(session, wanted, DEVICE, kind, shape, source, target)
    if what.rows:
        call.expect_rows(what.rows)
    session.launch(request, call)


def next_number(process_set: ProcessSet) -> int:
    """Return the number of the next call without a name in programs: the same on all ranks, which
    make these calls in the order of the program."""
    return unnamed_number(default.current().unnamed.name(_scope(process_set)))


def _scope(process_set: ProcessSet) -> str:
    # Apart from calls outside of programs, which no order binds to those inside.
    return f"jit.{scope_of(number_of(process_set))}"


@functools.cache
def register() -> None:
    """Tell XLA of the custom call. Needs the native module."""
    from byteps import _core

    jax.ffi.register_ffi_target(TARGET, _core.xla_handler, platform="cpu")
