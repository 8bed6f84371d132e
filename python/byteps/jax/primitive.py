"""The primitive of JAX that is an exchange: its shapes, derivatives, batches and custom call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from byteps.common.errors import InvalidArgumentError
from byteps.common.operations.call import LINEAR
from byteps.common.operations.splits import rows_of
from byteps.common.programs.program_exchange import Exchange
from byteps.common.programs.xla import TARGET
from byteps.common.programs.xla_device import text_of
from byteps.common.session import default
from byteps.common.types import Operation
from byteps.jax import eager, xla
from byteps.jax.concurrent import concurrent

exchange_p = Primitive("byteps_exchange")

_WITH_ROWS = (Operation.ALLGATHER, Operation.ALLTOALL, Operation.REDUCESCATTER)
_GATE = jax.ShapeDtypeStruct((), jnp.uint32)
_BACKWARD = ".backward"
_TANGENT = ".tangent"


def exchange(x: Any, gate: Any, what: Exchange) -> Any:
    """Return the result of an exchange of `x`, which starts when `gate` is there.

    A BARRIER returns the gate when all ranks have come to it.
    """
    return exchange_p.bind(x, gate, what=with_rows(x, what))


def with_rows(x: Any, what: Exchange) -> Exchange:
    """Return an exchange that knows how many rows come from each rank."""
    if what.operation is Operation.ALLGATHER and not what.rows:
        return replace(what, rows=(x.shape[0],) * _size(what))
    if what.operation is Operation.ALLTOALL:
        return replace(what, rows=(x.shape[0] // _size(what),) * _size(what))
    return what


def _size(what: Exchange) -> int:
    return what.process_set().size()


def _rows_of_ranks(what: Exchange, count: int) -> tuple[int, ...]:
    """Return how a reducescatter deals `count` rows to the ranks."""
    size = _size(what)
    return tuple(rows_of(rank, size, count) for rank in range(size))


# Shapes. The effect keeps exchanges whose results nobody uses: other ranks wait for them.


def _effect() -> Any:
    """Return the effect that JAX gives to custom calls: there is no public way to make one."""
    call = jax.ffi.ffi_call("byteps", _GATE, has_side_effect=True)
    (effect,) = jax.make_jaxpr(lambda: call())().effects
    return effect


_EFFECTS = {_effect()}


def abstract(x: Any, gate: Any, *, what: Exchange) -> tuple[Any, Any]:
    """Return the type of an exchange's result, and its effects."""
    if what.operation is Operation.BARRIER:
        return gate, _EFFECTS
    if what.operation in _WITH_ROWS:
        if what.operation is Operation.REDUCESCATTER:
            process_set = what.process_set()
            rows = rows_of(process_set.rank(), process_set.size(), x.shape[0])
        else:
            rows = sum(what.rows)
        return x.update(shape=(rows, *x.shape[1:])), _EFFECTS
    return x, _EFFECTS


exchange_p.def_effectful_abstract_eval(abstract)
exchange_p.def_impl(eager.run)

# Derivatives: those of torch and TensorFlow in Horovod, see docs/jax.md.


def jvp(primals: Sequence[Any], tangents: Sequence[Any], *, what: Exchange) -> tuple[Any, Any]:
    """Return the result of an exchange, and how it changes with its input."""
    x, gate = primals
    change = tangents[0]
    result = exchange_p.bind(x, gate, what=what)
    if type(change) is ad.Zero:
        return result, ad.Zero(result.aval.to_tangent_aval())
    combined = what.combine if what.operation is Operation.REDUCESCATTER else what.operation
    if combined in (Operation.MIN, Operation.MAX, Operation.PRODUCT):
        raise InvalidArgumentError(
            f"an allreduce with op={combined.name.title()} has no derivative here. Use "
            "jax.lax.stop_gradient on its input, or op=Average or op=Sum."
        )
    return result, exchange_p.bind(change, gate, what=what.part(_TANGENT))


ad.primitive_jvps[exchange_p] = jvp


def _transpose(cotangent: Any, x: Any, gate: Any, *, what: Exchange) -> tuple[Any, None]:
    if type(cotangent) is ad.Zero:
        # Other ranks may have one: they wait for this rank.
        shape = abstract(x.aval, _GATE, what=what)[0]
        cotangent = jnp.zeros(shape.shape, shape.dtype)
    suffix = what.suffix.removesuffix(_TANGENT) + _BACKWARD
    back = replace(what, suffix=suffix, rows=())
    return _TRANSPOSES[what.operation](cotangent, x.aval, gate, back), None


def _same(cotangent: Any, _: Any, gate: Any, what: Exchange) -> Any:
    return exchange(cotangent, gate, what)


def _of_broadcast(cotangent: Any, _: Any, gate: Any, what: Exchange) -> Any:
    mean = exchange(cotangent, gate, replace(what, operation=Operation.AVERAGE, root_rank=0))
    return mean if default.rank() == what.root_rank else jnp.zeros_like(mean)


def _of_gather(cotangent: Any, _: Any, gate: Any, what: Exchange) -> Any:
    return exchange(
        cotangent,
        gate,
        replace(what, operation=Operation.REDUCESCATTER, combine=Operation.AVERAGE),
    )


def _of_scatter(cotangent: Any, x: Any, gate: Any, what: Exchange) -> Any:
    rows = _rows_of_ranks(what, x.shape[0])
    if len(set(rows)) > 1:
        gate = concurrent(gate)
    back = replace(what, operation=Operation.ALLGATHER, combine=Operation.SUM, rows=rows)
    whole = exchange(cotangent, gate, back)
    return whole * _size(what) if what.combine is Operation.SUM else whole


_TRANSPOSES: dict[Operation, Callable[[Any, Any, Any, Exchange], Any]] = {
    **dict.fromkeys(LINEAR, _same),
    Operation.ALLTOALL: _same,
    Operation.BROADCAST: _of_broadcast,
    Operation.ALLGATHER: _of_gather,
    Operation.REDUCESCATTER: _of_scatter,
}

ad.primitive_transposes[exchange_p] = _transpose

# Batches: one exchange for all of them.


def batch(arguments: Sequence[Any], axes: Sequence[Any], *, what: Exchange) -> tuple[Any, Any]:
    """Return the results of a batch, and which dimension counts them."""
    x, gate = arguments
    axis, gate_axis = axes
    if gate_axis is not None:
        raise InvalidArgumentError("an exchange cannot be batched over its gate.")
    if what.operation in _WITH_ROWS:
        x = jnp.moveaxis(x, axis, 1)  # the rows stay first
        axis = 1
    return exchange_p.bind(x, gate, what=what), axis


batching.primitive_batchers[exchange_p] = batch

# In programs: a custom call.


def _lower_on_gpu(ctx: Any, x: Any, gate: Any, *, what: Exchange) -> Any:
    check_one_device(ctx)
    xla.register()
    aliases = {1: 0} if what.operation is Operation.BARRIER else {}
    rule = jax.ffi.ffi_lowering(TARGET, operand_output_aliases=aliases, has_side_effect=True)
    return rule(ctx, x, gate, call=text_of([what]))


def _lower(ctx: Any, x: Any, gate: Any, *, what: Exchange) -> Any:
    check_one_device(ctx)
    xla.register()
    rule = jax.ffi.ffi_lowering(TARGET, has_side_effect=True)
    return rule(ctx, x, gate, call=what.text())


def check_one_device(ctx: Any) -> None:
    """Raise if a program is for several devices."""
    # shard_map has a mesh, jit a number of devices, pmap before jax 0.8 replicas.
    axes = ctx.module_context.axis_context
    counts = (
        getattr(axes, "num_devices", None),
        getattr(getattr(axes, "mesh", None), "size", None),
        getattr(getattr(axes, "axis_env", None), "nreps", None),
    )
    count = max(count or 1 for count in counts)
    if count > 1:
        raise InvalidArgumentError(
            f"an exchange inside jit needs a program for one device; this one is for {count}. Sum "
            "over the devices of this process in one jit (jax.lax.psum in shard_map), exchange its "
            "result outside jit, and use that in another jit. `bps docs jax` has an example."
        )


def _refuse(ctx: Any, x: Any, gate: Any, *, what: Exchange) -> Any:
    raise InvalidArgumentError(
        "an exchange inside jit works on the CPU and on GPUs of NVIDIA only. Make this call "
        "outside jit: it copies the arrays through host memory."
    )


mlir.register_lowering(exchange_p, _refuse)
mlir.register_lowering(exchange_p, _lower, platform="cpu")
mlir.register_lowering(exchange_p, _lower_on_gpu, platform="cuda")
