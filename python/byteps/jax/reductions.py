"""Every rank gets the combination of all ranks' arrays: push_pull and the allreduce family.

All functions take an array or a tree of arrays, and work inside jit, grad and vmap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from byteps.common.operations.calls import push_pull_call, reduce_call
from byteps.common.operations.reduction import ReduceOp, choose_op
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.jax.compression import Compression, Compressor
from byteps.jax.exchange import Pending, run, start


def push_pull(
    tensor: Any,
    average: bool = True,
    name: str | None = None,
    version: int = 0,
    priority: int = 0,
    compression: Compressor | type[Compressor] = Compression.none,
) -> Any:
    """Return the average, or the sum, of all ranks' arrays. Averages of integers round down.

    Example::

        @jax.jit
        def train_step(weights, batch):
            gradients = jax.grad(loss)(weights, batch)
            gradients = bps.push_pull(gradients, name="gradients")
            return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)
    """
    return run(push_pull_call(average, name, priority), tensor, compression)


def push_pull_start(
    tensor: Any,
    average: bool = True,
    name: str | None = None,
    priority: int = 0,
    compression: Compressor | type[Compressor] = Compression.none,
) -> Pending:
    """Start to combine all ranks' arrays; give what this returns to `push_pull_done`.

    Inside jit, start and done belong into the same function. XLA computes meanwhile what does not
    need the result.

    Example::

        pending = bps.push_pull_start(gradients, name="gradients")
        statistics = compute(batch)
        gradients = bps.push_pull_done(pending)
    """
    return start(push_pull_call(average, name, priority), tensor, compression)


def push_pull_done(pending: Pending) -> Any:
    """Return the results of what `push_pull_start` has started.

    Example::

        gradients = bps.push_pull_done(pending)
    """
    return pending.finish()


def allreduce(
    tensor: Any,
    average: bool | None = None,
    name: str | None = None,
    compression: Compressor | type[Compressor] = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the combination of all ranks' arrays: their average, or what `op` says.

    The array is multiplied by `prescale_factor` before and by `postscale_factor` after it is
    combined. Averages of integers and scaled integers are cut toward zero. `average` is deprecated:
    use `op`.

    Example::

        largest = bps.allreduce(array, name="largest", op=bps.Max)
    """
    call = reduce_call(choose_op(average, op), name, prescale_factor, postscale_factor, process_set)
    return run(call, tensor, compression)


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    name: str | None = None,
    compression: Compressor | type[Compressor] = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Do `allreduce` with several arrays; that takes them, too.

    Example::

        loss, accuracy = bps.grouped_allreduce([loss, accuracy], name="metrics")
    """
    call = reduce_call(choose_op(average, op), name, prescale_factor, postscale_factor, process_set)
    return run(call, tensors, compression)
