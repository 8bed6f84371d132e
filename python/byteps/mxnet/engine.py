"""Exchanges as operations of MXNet's engine, and one by one where it has none."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import mxnet
import numpy as np

from byteps.common import environment
from byteps.common.errors import BytepsError
from byteps.common.operations.call import Call, detail_of, request_of
from byteps.common.session import default
from byteps.mxnet import errors
from byteps.numpy.arrays import data_type_of, start_exchange

if TYPE_CHECKING:
    from byteps import _core

# The last release, and the versions that share its structs.
_VERSIONS = ("1.9.",)
# The engine that ends each operation before it returns; it cannot have operations that take time.
_BLOCKING = "NaiveEngine"
_IDLE_LIMIT_MS = 10_000
_KEY = "mxnet engine"


@functools.cache
def _engine() -> _core.MxnetEngine | None:
    """Return the engine; None if exchanges must block."""
    errors.register()
    if environment.mxnet_engine() == _BLOCKING or not mxnet.__version__.startswith(_VERSIONS):
        return None
    from byteps import _core

    return _core.MxnetEngine(mxnet.libinfo.find_lib_path()[0])


@dataclass
class Pushed:
    """An exchange in the engine: the name that it has, and what another may wait for."""

    name: str
    array: Any
    gate: _core.MxnetGate | None


def push(call: Call, array: Any, after: Pushed | None = None) -> Pushed:
    """Exchange a classic array on the CPU in place, when all that is pushed so far and uses it is
    done, and `after` has succeeded."""
    session = default.current()
    dtype = data_type_of(np.dtype(array.dtype))
    request = request_of(session, call, "cpu", dtype, array.shape)
    engine = _engine()
    if engine is None:
        _exchange_now(call, request.name, array)
        return Pushed(request.name, array, None)
    if _KEY not in session.plugin_state:
        session.plugin_state[_KEY] = engine
        session.before_leaving.append(functools.partial(_wait_until_idle, engine))

    def push_to_engine(native: int, *description: Any) -> _core.MxnetGate:
        handle = 0 if after is None else after.array.handle.value
        gate = None if after is None else after.gate
        return engine.push(native, array.handle.value, handle, gate, *description)

    return Pushed(request.name, array, session.hand_over(request, push_to_engine))


def _exchange_now(call: Call, name: str, array: Any) -> None:
    values = array.asnumpy()
    # The factors have been applied, or will be; ranks still agree about them.
    own = replace(call, name=name, detail=detail_of(call, ""), prescale=1.0, postscale=1.0)
    try:
        default.pending().synchronize(start_exchange(own, values, values))
    except BytepsError as error:
        raise errors.as_mxnet_error(error) from error.__cause__
    array[:] = values


def _wait_until_idle(engine: _core.MxnetEngine) -> None:
    """Let the exchanges end that programs have asked for, since others take part; but not for ever.

    A program ends, as MXNet lets it, when the engine has not yet computed its last step.
    """
    before = -1
    while True:
        left = engine.wait_for_fewer(_IDLE_LIMIT_MS)
        if left in (0, before):
            return
        before = left
