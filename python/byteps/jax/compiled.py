"""Exchanges of arrays that a program will have: inside jit, grad and vmap."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from byteps.common.errors import InvalidArgumentError
from byteps.common.operations.call import Call
from byteps.common.programs.program_exchange import Exchange
from byteps.common.session import default
from byteps.common.session.process_sets import ProcessSet
from byteps.common.types import Operation, moved_as, moved_detail
from byteps.jax.concurrent import concurrent
from byteps.jax.kept_memory import keep_memory
from byteps.jax.primitive import exchange
from byteps.jax.tree import exchange_tree, is_for_gpu
from byteps.jax.xla import next_number

_GATE = jax.ShapeDtypeStruct((), jnp.uint32)


def exchange_all(
    call: Call,
    arrays: Sequence[Any],
    paths: Sequence[str],
    priorities: Sequence[int],
    check: str,
) -> list[Any]:
    """Return the results of an exchange of each array, under the call's name and its path.

    With a `check`, they start when all ranks have come with the same one.
    """
    default.current().expect_calls()  # the program will make them, on threads of XLA
    what = Exchange.of(call)
    gate = jnp.uint32(0) if call.name is not None else _ticket(call.process_set)
    if check:
        agree = replace(what, operation=Operation.BARRIER, detail=check)
        gate = exchange(jnp.zeros((), jnp.uint8), gate, agree)
    if _is_uneven(call, arrays):
        gate = concurrent(gate)
    prepared = [
        _prepared(array, call, what.part(path, priority=priority))
        for array, path, priority in zip(arrays, paths, priorities, strict=True)
    ]
    results = _exchanged(prepared, gate)
    return [one.finish(result) for one, result in zip(prepared, results, strict=True)]


def _exchanged(prepared: Sequence[_Prepared], gate: Any) -> list[Any]:
    """Return the results of all exchanges, which are on their way together."""
    sent = [one.sent for one in prepared]
    if len(prepared) > 1 and is_for_gpu():
        return exchange_tree(sent, gate, [one.what for one in prepared])
    results = [exchange(one.sent, gate, one.what) for one in prepared]
    return keep_memory(sent, results) if len(prepared) > 1 else results


def _is_uneven(call: Call, arrays: Sequence[Any]) -> bool:
    """Return whether ranks get results of other shapes."""
    size = call.process_set.size()
    return call.operation is Operation.REDUCESCATTER and any(a.shape[0] % size for a in arrays)


def _ticket(process_set: ProcessSet) -> Any:
    """Return a number for a call without a name; programs take them in the order of the calls."""

    def take() -> Any:
        return np.uint32(next_number(process_set))

    return io_callback(take, _GATE, ordered=True)


class _Prepared(NamedTuple):
    """An exchange in a program: what is sent, and how."""

    sent: Any
    what: Exchange
    finish: Callable[[Any], Any]  # makes what users get out of the result


def _prepared(x: Any, call: Call, what: Exchange) -> _Prepared:
    if call.splits is not None:
        raise InvalidArgumentError(
            "alltoall with splits cannot be inside jit, because the other ranks decide how many "
            "rows come. Call it outside jit, or without splits."
        )
    moved = moved_as(x.dtype.name, call.operation)
    if moved is not None:
        detail = f"{what.detail}; {moved_detail(x.dtype.name)}".removeprefix("; ")
        sent = jax.lax.bitcast_convert_type(x, moved.name.lower())
        back = functools.partial(jax.lax.bitcast_convert_type, new_dtype=x.dtype)
        return _Prepared(sent, replace(what, detail=detail), back)
    x = _scaled(x, call.prescale)
    if not _is_cut(call, x):
        return _Prepared(x, what, lambda got: _scaled(got, call.postscale))
    # Servers round down: the average of -x, negated, is the average rounded up.
    wide = x.astype(jnp.int32) if x.dtype.itemsize < 4 else x
    both = jnp.stack([wide, -wide])
    detail = f"{what.detail}; average of {x.dtype}".removeprefix("; ")

    def cut(got: Any) -> Any:
        average = jnp.where(got[0] < 0, -got[1], got[0]).astype(x.dtype)
        return _scaled(average, call.postscale)

    return _Prepared(both, replace(what, detail=detail), cut)


def _scaled(x: Any, factor: float) -> Any:
    if factor == 1.0:
        return x
    if jnp.issubdtype(x.dtype, jnp.floating):
        # Of two bytes, the product is rounded once.
        wide = x.dtype if x.dtype.itemsize > 2 else jnp.dtype(jnp.float32)
        return (x.astype(wide) * wide.type(factor)).astype(x.dtype)
    if x.dtype == jnp.bool_:
        raise InvalidArgumentError(f"an array of bool cannot be scaled; the factor is {factor}.")
    if not jax.config.jax_enable_x64:
        raise InvalidArgumentError(
            f"scaling an array of {x.dtype} inside jit needs float64. Set jax_enable_x64, or scale "
            "it outside jit."
        )
    return (x.astype(jnp.float64) * factor).astype(x.dtype)


def _is_cut(call: Call, x: Any) -> bool:
    is_average = call.toward_zero and call.operation is Operation.AVERAGE
    return is_average and jnp.issubdtype(x.dtype, jnp.signedinteger)
