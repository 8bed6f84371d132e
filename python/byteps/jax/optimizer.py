"""Optimizers of optax that average gradients over all ranks first."""

from __future__ import annotations

from typing import Any

from byteps.common.compression import Compressor
from byteps.common.exchange_options import ExchangeOptions
from byteps.common.gradient_exchange import gradient_call
from byteps.common.process_sets import ProcessSet, global_process_set, has_others
from byteps.common.reduction import Average, ReduceOp
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
    which the last one exchanges them; the others change nothing. The state is optax.MultiSteps'
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
    inner = optax.with_extra_args_support(optimizer)

    def update(gradients: Any, state: Any, params: Any = None, **more: Any) -> Any:
        return inner.update(_combined(gradients, options, name), state, params, **more)

    distributed = optax.GradientTransformationExtraArgs(inner.init, update)
    if options.passes_per_step == 1:
        return distributed
    steps = optax.MultiSteps(distributed, int(options.passes_per_step), use_grad_mean=False)
    return steps.gradient_transformation()


def _combined(gradients: Any, options: ExchangeOptions, name: str) -> Any:
    if not has_others(options.process_set):
        return gradients
    call = gradient_call(options, name, 0)
    return start(call, gradients, options.compression, first_is_urgent=True).finish()
