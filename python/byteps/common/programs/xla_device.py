"""What a custom call of XLA on a GPU does: the operations of a whole tree, side by side.

XLA makes the custom calls of a program one after another, and waits for each. So one call has all
tensors of a tree, and the gate behind them. XLA's stream writes the inputs; results are in memory
when the call is over.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from byteps.common.cuda_memory import device_of, to_device, to_host
from byteps.common.devices import DevicePlace
from byteps.common.errors import MismatchError
from byteps.common.operations.byte_rows import address_of
from byteps.common.operations.call import Call, start
from byteps.common.programs.program_exchange import Exchange, exchange_of
from byteps.common.programs.xla import DATA_TYPES, DEVICE
from byteps.common.session import default
from byteps.common.session.flight import Flight
from byteps.common.session.pending import Handle
from byteps.common.types import DataType, Operation

if TYPE_CHECKING:
    from byteps import _core

_NUMBER_BYTES = 4  # of a gate


def text_of(exchanges: Sequence[Exchange]) -> str:
    """Return what the program holds of a call."""
    return json.dumps([one.text() for one in exchanges])


def run(call: _core.XlaDeviceCall) -> None:
    """Carry out the operations of a call, and wait for them. XLA calls this through the native
    module; what it raises becomes the error of the program."""
    exchanges = [exchange_of(text) for text in json.loads(call.text)]
    *inputs, (_, _, gate) = call.inputs
    place = DevicePlace(device_of(gate), call.stream)
    number = bytearray(_NUMBER_BYTES)
    # Only who needs the number waits for the stream.
    if any(one.name is None or one.operation is Operation.BARRIER for one in exchanges):
        to_host(gate, place, address_of(number), _NUMBER_BYTES)
    handles: list[Handle[Any]] = []
    errors: list[Exception] = []
    try:
        for what, source, target in zip(exchanges, inputs, call.outputs, strict=True):
            wanted = what.call(int.from_bytes(number, "little"))
            if what.operation is Operation.BARRIER:
                handles.append(start(wanted, DEVICE, DataType.UINT8, ()))
                to_device(address_of(number), place.device, target[2], _NUMBER_BYTES)
            else:
                handles.append(_start(what, wanted, source, target[2], place))
    except Exception as error:
        errors.append(error)
    # XLA uses the memory for something else when this returns, also after an error.
    for handle in handles:
        try:
            default.pending().synchronize(handle)
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _start(
    what: Exchange, wanted: Call, source: tuple[Any, ...], target: int, place: DevicePlace
) -> Handle[Any]:
    dtype, shape, address = source
    kind = DATA_TYPES[dtype]
    if not what.rows:
        return start(wanted, DEVICE, kind, shape, address, target, place=place)
    take = partial(_take_rows, what, target, place.device)
    return start(wanted, DEVICE, kind, shape, address, 0, take, place=place)


def _take_rows(what: Exchange, target: int, device: int, flight: Flight) -> None:
    """Bring rows, which have come into host memory, to where the program has room for them."""
    received = flight.rows_of_ranks()
    if tuple(received) != what.rows:
        raise MismatchError(
            "inside jit every rank must have the same number of rows, but the ranks' rows are "
            f"{' '.join(map(str, received))}. Make this call outside jit"
        )
    size_bytes, _ = flight.rows()
    rows = bytearray(size_bytes)
    flight.copy_rows(address_of(rows), size_bytes)
    to_device(address_of(rows), device, target, size_bytes)
