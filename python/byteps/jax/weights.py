"""Trees of arrays that all ranks must have alike."""

from __future__ import annotations

from typing import Any

from byteps.common.operations.calls import broadcast_call
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.jax.eager import host_array
from byteps.jax.exchange import Tree, run
from byteps.numpy.weights import check_replicas as check_arrays


def broadcast_parameters(
    params: Any,
    root_rank: int = 0,
    prefix: str = "Parameter.",
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the root's tree of arrays, bit for bit: weights, or the state of an optimizer.

    Arrays of JAX cannot be overwritten: use what this returns. If some rank has another tree, this
    is a MismatchError on every rank.

    Example::

        weights = bps.broadcast_parameters(weights, root_rank=0)
        state = bps.broadcast_parameters(state, root_rank=0, prefix="Optimizer.")
    """
    return run(broadcast_call(root_rank, prefix, process_set), params)


def check_replicas(
    params: Any, name: str = "arrays", process_set: ProcessSet = global_process_set
) -> None:
    """Raise ReplicasDifferError on every rank unless all ranks have the same arrays, bit for bit.

    The error names the first array that differs, and the ranks where it does. Each rank reads its
    arrays once and sends 8 bytes for each. All ranks must call it, outside jit.

    Example::

        bps.check_replicas(weights)
    """
    tree = Tree(params)
    arrays = {path: host_array(leaf) for path, leaf in zip(tree.paths, tree.leaves, strict=True)}
    check_arrays(arrays, name, process_set)
