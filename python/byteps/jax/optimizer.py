"""Optimizers of optax that average gradients over all ranks first."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from byteps.common.gradients.compression import Compressor
from byteps.common.gradients.exchange_options import ExchangeOptions
from byteps.common.gradients.gradient_exchange import gradient_call
from byteps.common.operations.reduction import Average, ReduceOp
from byteps.common.session.process_sets import ProcessSet, global_process_set, has_others
from byteps.jax.compression import Compression
from byteps.jax.exchange import start


def DistributedOptimizer(  # noqa: N802
    optimizer: Any,
    compression: Compressor | type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    name: str = "Gradient",
) -> Any:
    """Return an optimizer of optax that averages gradients over all ranks, then does what
    `optimizer` does. Its state is the one that `optimizer` has.

    With `backward_passes_per_step` above 1, gradients are added up locally for so many updates, of
    which the last one exchanges them; the others change nothing. The state holds the sums, too,
    then. On a rank that is not in the process set, gradients stay as they are. Two optimizers that
    are updated in one program need different names.

    Example::

        optimizer = bps.DistributedOptimizer(optax.adam(1e-3))
        state = optimizer.init(weights)

        @jax.jit
        def train_step(weights, state, batch):
            gradients = jax.grad(loss)(weights, batch)
            updates, state = optimizer.update(gradients, state, weights)
            return optax.apply_updates(weights, updates), state
    """
    import optax

    options = ExchangeOptions(
        compression,
        backward_passes_per_step,
        op,
        gradient_predivide_factor,
        process_set=process_set,
    )
    options.check()
    if not (callable(getattr(optimizer, "init", None)) and hasattr(optimizer, "update")):
        raise ValueError(
            f"DistributedOptimizer takes an optimizer of optax; this is a "
            f"{type(optimizer).__name__}. Give it optax.adam(1e-3), for example."
        )
    inner = optax.with_extra_args_support(optimizer)

    def update(gradients: Any, state: Any, params: Any = None, **more: Any) -> Any:
        return inner.update(_combined(gradients, options, name), state, params, **more)

    distributed = optax.GradientTransformationExtraArgs(inner.init, update)
    if options.passes_per_step == 1:
        return distributed
    return _accumulating(distributed, int(options.passes_per_step))


class Accumulated(NamedTuple):
    """The state of an optimizer that adds up the gradients of several passes."""

    inner: Any
    sums: Any
    passes: Any  # that are in the sums


def _accumulating(optimizer: Any, passes: int) -> Any:
    """Return an optimizer that gives `optimizer` the sum of the gradients of so many updates.

    optax.MultiSteps would let `optimizer` exchange them in every update, and forget the result.
    """
    import optax

    def init(params: Any) -> Accumulated:
        sums = jax.tree_util.tree_map(jnp.zeros_like, params)
        return Accumulated(optimizer.init(params), sums, jnp.int32(0))

    def update(gradients: Any, state: Accumulated, params: Any = None, **more: Any) -> Any:
        sums = jax.tree_util.tree_map(jnp.add, state.sums, gradients)

        def last() -> Any:
            updates, inner = optimizer.update(sums, state.inner, params, **more)
            none = jax.tree_util.tree_map(jnp.zeros_like, sums)
            return updates, Accumulated(inner, none, jnp.int32(0))

        shapes, _ = jax.eval_shape(last)

        def other() -> Any:
            nothing = jax.tree_util.tree_map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
            return nothing, Accumulated(state.inner, sums, state.passes + 1)

        return jax.lax.cond(state.passes + 1 == passes, last, other)

    return optax.GradientTransformationExtraArgs(init, update)


def _combined(gradients: Any, options: ExchangeOptions, name: str) -> Any:
    if not has_others(options.process_set):
        return gradients
    call = gradient_call(options, name, 0)
    return start(call, gradients, options.compression, first_is_urgent=True).finish()
