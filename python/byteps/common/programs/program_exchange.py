"""What an operation inside a program of a framework says: a call that the program holds as text.

A program is traced once, and runs many times, also in later sessions.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, fields, replace
from typing import Any

from byteps.common.operations.call import Call, detail_of
from byteps.common.session import default
from byteps.common.session.names import scope_of, unnamed
from byteps.common.session.process_sets import ProcessSet, global_process_set, number_of
from byteps.common.types import Operation


@dataclass(frozen=True)
class Exchange:
    """What an operation of a program does: a Call that lives through several sessions."""

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
        name = unnamed(scope_in_programs(process_set), number) if self.name is None else self.name
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
        """Return it as a text; see `exchange_of`."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        return json.dumps({k: v for k, v in given.items() if v != _DEFAULTS.get(k)})


_DEFAULTS = {one.name: one.default for one in fields(Exchange)}


@functools.lru_cache(maxsize=4096)
def exchange_of(text: str) -> Exchange:
    """Return what `Exchange.text` has made a text of."""
    given = json.loads(text)
    given["operation"] = Operation(given["operation"])
    given["combine"] = Operation(given.get("combine", 0))
    for name in ("ranks", "rows"):
        if name in given:
            given[name] = tuple(given[name])
    return Exchange(**given)


def scope_in_programs(process_set: ProcessSet) -> str:
    """Return what names of unnamed calls in programs begin with: apart from calls outside of
    programs, which no order binds to those inside."""
    return f"jit.{scope_of(number_of(process_set))}"
