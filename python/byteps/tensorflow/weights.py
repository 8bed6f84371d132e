"""Variables that all ranks must have alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from byteps.common.errors import InvalidArgumentError
from byteps.common.operations.call import checked_root
from byteps.common.operations.calls import broadcast_call
from byteps.common.session.process_sets import ProcessSet, global_process_set, has_others
from byteps.numpy.weights import check_replicas as check_arrays
from byteps.tensorflow.agreement import after, agreed, described, gate_of
from byteps.tensorflow.eager import host_array
from byteps.tensorflow.errors import with_tensorflow_errors
from byteps.tensorflow.exchange import as_tensor, calls_of_group, named, same

Hook: Any = tf.compat.v1.train.SessionRunHook


@with_tensorflow_errors
def broadcast_(
    variables: Sequence[Any],
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Overwrite variables with the root's, bit for bit; return their new values.

    Example::

        bps.broadcast_([weights, bias], root_rank=0)
    """
    variables = _listed(variables)
    if len({_is_resource(variable) for variable in variables}) > 1:
        raise ValueError("resource variables and reference variables cannot be mixed in one call.")
    values = _values_of_root(variables, root_rank, name or "broadcast_", process_set)
    return [_assign(variable, value) for variable, value in zip(variables, values, strict=True)]


@with_tensorflow_errors
def broadcast_variables(
    variables: Iterable[Any],
    root_rank: int,
    process_set: ProcessSet | str = global_process_set,
    inplace: bool = False,
    scope: str = "",
) -> Any:
    """Overwrite variables with the root's, bit for bit. In a graph, return an operation that does.

    Call it after the first step if the optimizer makes its variables there, or build them first.
    The order of the variables must be the same on all ranks. `inplace` and `scope`, which may also
    be the third argument, are accepted for programs written for Horovod and for the original.

    Example::

        bps.broadcast_variables(model.variables, root_rank=0)
        bps.broadcast_variables(optimizer.variables, root_rank=0)
    """
    del inplace, scope
    if isinstance(process_set, str):
        process_set = global_process_set
    variables = _listed(variables)
    if tf.executing_eagerly() and not has_others(process_set):
        return None
    values = _values_of_root(variables, root_rank, "broadcast_variables", process_set)
    assigned = [_assign(variable, value) for variable, value in zip(variables, values, strict=True)]
    return None if tf.executing_eagerly() else tf.group(*assigned)


def _listed(variables: Iterable[Any]) -> list[Any]:
    """Return the variables; raise if they are none."""
    others = [variables] if hasattr(variables, "assign") else list(variables)
    for other in others:
        if other is variables or not hasattr(other, "assign"):
            raise InvalidArgumentError(
                f"a broadcast takes a list of variables; here is a {type(other).__name__}."
            )
    return others


def _values_of_root(
    variables: Sequence[Any], root_rank: int, name: str, process_set: ProcessSet
) -> list[Any]:
    root = checked_root(root_rank, process_set)
    call = broadcast_call(root, name, process_set)
    tensors = [as_tensor(variable, call) for variable in variables]
    if not tensors and not tf.executing_eagerly():
        return []
    call.name = named(name, "BroadcastVariables", None)
    before = agreed(call, [described(tensor) for tensor in tensors], f"root {root}")
    if not tensors:
        return []
    with after(before):
        return same(calls_of_group(call, len(tensors)), tensors, gate_of(before))


def _is_resource(variable: Any) -> bool:
    return getattr(variable, "handle", None) is not None or not isinstance(variable, tf.Variable)


def _assign(variable: Any, value: Any) -> Any:
    """Give a variable of TensorFlow or Keras its value; return the new value."""
    assigned = variable.assign(value)
    return value if assigned is None or tf.executing_eagerly() else assigned


@with_tensorflow_errors
def broadcast_global_variables(root_rank: int) -> Any:
    """Return an operation that overwrites all global variables of a graph with the root's.

    Example::

        with tf.Graph().as_default():
            build_model()
            send = bps.broadcast_global_variables(0)
    """
    if tf.executing_eagerly():
        raise RuntimeError(
            "bps.broadcast_global_variables() does not support eager execution. Please use "
            "`bps.broadcast_variables(<model/optimizer variables>)` instead."
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(Hook):
    """A hook of `MonitoredTrainingSession` that broadcasts all global variables once.

    Example::

        hooks = [bps.BroadcastGlobalVariablesHook(0)]
        with tf.compat.v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            session.run(train_op)
    """

    def __init__(self, root_rank: int, device: str = "") -> None:
        """Broadcast from `root_rank`; `device` is accepted for programs written for Horovod."""
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self.bcast_op: Any = None

    def begin(self) -> None:
        """Add the broadcast to the graph."""
        graph = tf.compat.v1.get_default_graph()
        if self.bcast_op is None or self.bcast_op.graph is not graph:
            self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Broadcast."""
        del coord
        session.run(self.bcast_op)


@with_tensorflow_errors
def check_replicas(
    variables: Iterable[Any],
    name: str = "variables",
    process_set: ProcessSet = global_process_set,
) -> None:
    """Raise ReplicasDifferError on every rank unless all ranks have the same variables, bit for
    bit.

    The error names the first variable that differs, and the ranks where it does. Each rank reads
    its variables once and sends 8 bytes for each. All ranks must call it, outside of graphs.

    Example::

        bps.check_replicas(model.variables)
    """
    arrays = {
        f"{i}.{getattr(variable, 'name', '')}": host_array(tf.convert_to_tensor(variable))
        for i, variable in enumerate(variables)
    }
    check_arrays(arrays, name, process_set)
