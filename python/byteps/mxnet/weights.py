"""Parameters that all ranks must have alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mxnet.gluon import Parameter, ParameterDict

from byteps.common.errors import BytepsError, InvalidArgumentError
from byteps.common.operations.barriers import meet
from byteps.common.operations.call import Call, checked_root
from byteps.common.operations.calls import broadcast_call
from byteps.common.session import default
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation
from byteps.mxnet.arrays import Array, classic, exchange_in_place
from byteps.mxnet.errors import raises_mxnet_errors
from byteps.numpy import weights

PREFIX = "Parameter."


@raises_mxnet_errors
def broadcast_parameters(
    params: Mapping[Any, Any] | ParameterDict, root_rank: int = 0, prefix: str | None = None
) -> None:
    """Overwrite parameters with the root's, bit for bit.

    `params` is a dict of arrays, or what `net.collect_params()` returns. Parameters whose
    initialisation is deferred are overwritten right after it; all others have the root's values
    when this returns. Other names on some rank are a MismatchError on every rank.

    Example::

        bps.broadcast_parameters(net.collect_params(), root_rank=0)
    """
    if not isinstance(params, (Mapping, ParameterDict)):
        raise ValueError(
            f"invalid params of type: {type(params).__name__}; give a dict, or the ParameterDict "
            "of net.collect_params()."
        )
    if default.size() == 1:
        return
    root = checked_root(root_rank, global_process_set)
    start = PREFIX if prefix is None else prefix
    named = [(f"{start}{key}", params[key]) for key in sorted(params.keys())]
    for name, value in named:
        _check(name, value)
    detail = f"root {root}; {len(named)} parameters: {', '.join(name for name, _ in named)}"
    meet(Call(Operation.BARRIER, f"broadcast_parameters {start}", detail=detail))
    arrays = [array for name, value in named for array in start_broadcast(name, value, root)]
    _wait(arrays)


@raises_mxnet_errors
def check_replicas(
    params: Mapping[Any, Any] | ParameterDict,
    name: str = "parameters",
    process_set: ProcessSet = global_process_set,
) -> None:
    """Raise ReplicasDifferError on every rank unless all ranks have the same, bit for bit.

    The error names the first array that differs, and the ranks where it does. Each rank reads its
    arrays once and sends 8 bytes for each. All ranks must call it.

    Example::

        bps.check_replicas(net.collect_params())
    """
    arrays = {key: params[key] for key in sorted(params.keys())}
    values = {
        key: (value.list_data()[0] if isinstance(value, Parameter) else value).asnumpy()
        for key, value in arrays.items()
    }
    weights.check_replicas(values, name, process_set)


def _check(name: str, value: Any) -> None:
    if not isinstance(value, Parameter):
        classic(value)
    elif not value._deferred_init and value._data is None:
        raise InvalidArgumentError(f"{name} has not been initialized; call net.initialize() first.")


def start_broadcast(
    name: str, value: Any, root: int, process_set: ProcessSet = global_process_set
) -> list[Array]:
    """Start to overwrite an array or a parameter, now or when it is initialised; return what is
    being overwritten."""
    if not isinstance(value, Parameter):
        exchange_in_place(broadcast_call(root, name, process_set), classic(value))
        return [value]
    if value._deferred_init:
        _broadcast_when_initialized(name, value, root, process_set)
        return []
    first, *others = value.list_data()
    # Its memory may be oneDNN's: a forward pass without gradients does that.
    exchange_in_place(broadcast_call(root, name, process_set), classic(first))
    for other in others:
        first.copyto(other)
    return [first]


def _broadcast_when_initialized(
    name: str, parameter: Any, root: int, process_set: ProcessSet
) -> None:
    initialize = parameter._init_impl

    def initialize_and_broadcast(*arguments: Any) -> None:
        parameter.__dict__.pop("_init_impl", None)  # the class's own again
        initialize(*arguments)
        start_broadcast(name, parameter, root, process_set)

    parameter._init_impl = initialize_and_broadcast


def _wait(arrays: list[Array]) -> None:
    errors = []
    for array in arrays:
        try:
            array.wait_to_read()
        except BytepsError as error:
            errors.append(error)
    if errors:
        raise errors[0]
