"""What a driver is: it makes the calls of cases through one adapter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from random_collectives.cases import Call, Case
from random_collectives.layouts import Laid
from random_collectives.oracle import Oracle
from random_collectives.values import Array


@dataclass
class Given:
    """What a rank gives to one call."""

    call: Call
    laid: list[Laid] = field(default_factory=list)
    parts: list[Array] = field(default_factory=list)  # what the root of a scatter has
    value: object = None


@dataclass
class Got:
    """What a rank gets of one call."""

    tensors: list[Array] = field(default_factory=list)
    counts: list[int] | None = None
    value: object = None


class Driver:
    """Makes calls through one adapter. Sets are lists of ranks."""

    def __init__(self) -> None:
        self.rank = 0
        self.size = 1

    def begin(self) -> None:
        """Join the job."""
        raise NotImplementedError

    def open_sets(self, sets: Sequence[tuple[int, ...]]) -> None:
        """Register process sets; until `close_sets`, calls are in these or in that of all."""
        raise NotImplementedError

    def close_sets(self) -> None:
        """Remove what `open_sets` has registered."""
        raise NotImplementedError

    def run(self, case: Case, given: dict[int, Given]) -> dict[int, Got]:
        """Make this rank's calls of a case; by the numbers of the calls."""
        raise NotImplementedError

    def meet(self) -> None:
        """Wait for all ranks."""
        raise NotImplementedError

    def end(self) -> None:
        """Leave the job."""
        raise NotImplementedError


def given_by(oracle: Oracle, case: Case, index: int, rank: int) -> Given:
    """Return what a rank gives to a call."""
    call = case.calls[index]
    given = Given(call)
    if call.kind.endswith("_object"):
        given.value = oracle.given(case, index, rank)
    arrays = oracle.inputs(case, index, rank)
    given.laid = [
        Laid.of(array, tensor.layout) for array, tensor in zip(arrays, call.tensors, strict=True)
    ]
    if call.kind == "scatter" and rank == call.root:
        given.parts = oracle.parts(case, index)
    return given


def module_sets(module: Any, sets: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], Any]:
    """Register process sets of a module of byteps; return them by their ranks."""
    found = {tuple(range(module.size())): module.global_process_set}
    for ranks in sets:
        found[ranks] = module.add_process_set(list(ranks))
    return found


def remove_sets(module: Any, sets: dict[tuple[int, ...], Any]) -> None:
    """Remove process sets again."""
    for one in sets.values():
        if one is not module.global_process_set:
            assert module.remove_process_set(one)


def op_of(module: Any, call: Call) -> Any:
    """Return the reduction of a call as a module of byteps calls it."""
    return getattr(module, call.op.capitalize())


def factors_of(call: Call) -> dict[str, float]:
    """Return the arguments of a call that scale."""
    factors = {"prescale_factor": call.prescale, "postscale_factor": call.postscale}
    return {name: factor for name, factor in factors.items() if factor != 1.0}
