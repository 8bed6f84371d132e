"""The exchanges of a tree as one primitive, for programs on a GPU.

There XLA makes custom calls one after another and waits for each. One call for all leaves lets
their exchanges overlap. On the processor, and for derivatives and batches, each leaf has an
exchange of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from byteps.common.programs.program_exchange import Exchange
from byteps.common.programs.xla import TARGET
from byteps.common.programs.xla_device import text_of
from byteps.jax import xla
from byteps.jax.primitive import abstract, batch, check_one_device, exchange_p, jvp, with_rows

tree_p = Primitive("byteps_tree")
tree_p.multiple_results = True

What = tuple[Exchange, ...]


def is_for_gpu() -> bool:
    """Return whether programs are compiled for GPUs, unless somebody says otherwise."""
    return jax.default_backend() == "gpu"


def exchange_tree(arrays: Sequence[Any], gate: Any, what: Sequence[Exchange]) -> list[Any]:
    """Return the results of an exchange of each array, which start when the gate is there."""
    pairs = zip(arrays, what, strict=True)
    known = tuple(with_rows(array, one) for array, one in pairs)
    found: list[Any] = tree_p.bind(*arrays, gate, what=known)
    return found


def _apart(*operands: Any, what: What) -> list[Any]:
    *arrays, gate = operands
    pairs = zip(arrays, what, strict=True)
    return [exchange_p.bind(array, gate, what=one) for array, one in pairs]


def _abstract(*operands: Any, what: What) -> tuple[list[Any], Any]:
    *arrays, gate = operands
    found = [abstract(x, gate, what=one) for x, one in zip(arrays, what, strict=True)]
    return [shape for shape, _ in found], set().union(*(effects for _, effects in found))


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, what: What) -> tuple[Any, Any]:
    *arrays, gate = primals
    triples = zip(arrays, tangents, what, strict=False)  # the gate has a tangent, too
    pairs = [jvp((array, gate), (change, None), what=one) for array, change, one in triples]
    return [result for result, _ in pairs], [tangent for _, tangent in pairs]


def _batch(operands: Sequence[Any], axes: Sequence[Any], *, what: What) -> tuple[Any, Any]:
    *arrays, gate = operands
    *places, gate_place = axes
    results, found = [], []
    for array, place, one in zip(arrays, places, what, strict=True):
        if place is None:
            result, axis = exchange_p.bind(array, gate, what=one), None
        else:
            result, axis = batch((array, gate), (place, gate_place), what=one)
        results.append(result)
        found.append(axis)
    return results, found


def _lower_on_gpu(ctx: Any, *operands: Any, what: What) -> Any:
    check_one_device(ctx)
    xla.register()
    rule = jax.ffi.ffi_lowering(TARGET, has_side_effect=True)
    return rule(ctx, *operands, call=text_of(what))


tree_p.def_impl(_apart)
tree_p.def_effectful_abstract_eval(_abstract)
ad.primitive_jvps[tree_p] = _jvp
batching.primitive_batchers[tree_p] = _batch
mlir.register_lowering(tree_p, mlir.lower_fun(_apart, multiple_results=True))
mlir.register_lowering(tree_p, _lower_on_gpu, platform="cuda")
