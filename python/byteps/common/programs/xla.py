"""What a custom call inside a program of XLA starts when it runs, whichever framework made it.

A custom call has two operands, the tensor and a *gate*. The gate is a uint32: the call starts when
it is there, and a call without a name takes its number from it.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from byteps.common.operations.call import request_of
from byteps.common.programs.program_exchange import exchange_of
from byteps.common.session import default
from byteps.common.types import DataType, Operation

if TYPE_CHECKING:
    from byteps import _core

TARGET = "byteps_exchange"
DEVICE = "cpu"

# XLA's numbers of the types.
DATA_TYPES = {
    1: DataType.BOOL,
    2: DataType.INT8,
    3: DataType.INT16,
    4: DataType.INT32,
    5: DataType.INT64,
    6: DataType.UINT8,
    10: DataType.FLOAT16,
    11: DataType.FLOAT32,
    12: DataType.FLOAT64,
    16: DataType.BFLOAT16,
}


def begin(call: _core.XlaCall) -> None:
    """Start the operation of a custom call. XLA calls this, on any thread, through the native
    module; what it raises becomes the error of the program."""
    what = exchange_of(call.text)
    (dtype, shape, source), (_, _, gate) = call.inputs
    target = call.outputs[0][2]
    number = ctypes.c_uint32.from_address(gate).value
    wanted = what.call(number)
    session = default.current()
    if what.operation is Operation.BARRIER:
        ctypes.c_uint32.from_address(target).value = number
        request = request_of(session, wanted, DEVICE, DataType.UINT8, ())
    else:
        kind = DATA_TYPES[dtype]
        request = request_of(session, wanted, DEVICE, kind, shape, source, target)
    if what.rows:
        call.expect_rows(what.rows)
    session.launch(request, call)
