"""Why exchanges in a program overlap with what the program computes.

XLA gives the memory of an array to a later array as soon as everything that reads the first array
comes earlier in the program's order. The later array waits until that memory is free. So an
exchange that waits for another rank would stop computations that do not need its result.
`keep_memory` reads what exchanges send, and their results, when all results are there: until then
XLA reuses none of this memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from byteps.jax import xla

keep_memory_p = Primitive("byteps_keep_memory")
keep_memory_p.multiple_results = True


def keep_memory(sent: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """Return the results of exchanges when all are there; what was sent keeps its memory until
    then."""
    found: list[Any] = keep_memory_p.bind(*sent, *results)
    return found


def _results(both: Sequence[Any]) -> list[Any]:
    return list(both[len(both) // 2 :])


def _jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    return keep_memory_p.bind(*primals), _results(tangents)


def _batch(both: Sequence[Any], axes: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    return keep_memory_p.bind(*both), _results(axes)


def _lower(ctx: Any, *both: Any) -> Any:
    xla.register()
    # The results stay where they are.
    count = len(both) // 2
    places = {count + place: place for place in range(count)}
    rule = jax.ffi.ffi_lowering(xla.KEEP_TARGET, operand_output_aliases=places)
    return rule(ctx, *both)


keep_memory_p.def_impl(lambda *both: _results(both))
keep_memory_p.def_abstract_eval(lambda *both: _results(both))
ad.primitive_jvps[keep_memory_p] = _jvp
batching.primitive_batchers[keep_memory_p] = _batch
mlir.register_lowering(keep_memory_p, lambda _, *both: _results(both))
mlir.register_lowering(keep_memory_p, _lower, platform="cpu")
