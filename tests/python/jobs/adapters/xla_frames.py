"""XLA, as a handler for custom calls on a GPU sees it: call frames of XLA's C interface (FFI)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

_VALUE = ctypes.c_void_p
_TEXT = 4  # the kind of an attribute
_DATA_TYPES = {"uint8": 6, "uint32": 8, "float16": 10, "float32": 11, "float64": 12, "int32": 4}


def _structure(**fields: Any) -> type[ctypes.Structure]:
    head = [("struct_size", ctypes.c_size_t), ("extensions", _VALUE)]
    return type("Structure", (ctypes.Structure,), {"_fields_": head + list(fields.items())})


_Text = type(
    "Text",
    (ctypes.Structure,),
    {"_fields_": [("begin", ctypes.c_char_p), ("size", ctypes.c_size_t)]},
)
_Buffer = _structure(
    data_type=ctypes.c_int,
    data=_VALUE,
    rank=ctypes.c_int64,
    dimensions=ctypes.POINTER(ctypes.c_int64),
)
_Buffers = _structure(
    size=ctypes.c_int64, kinds=ctypes.POINTER(ctypes.c_int), buffers=ctypes.POINTER(_VALUE)
)
_Attributes = _structure(
    size=ctypes.c_int64,
    kinds=ctypes.POINTER(ctypes.c_int),
    names=ctypes.POINTER(_VALUE),
    values=ctypes.POINTER(_VALUE),
)
_Frame = _structure(
    api=_VALUE,
    execution=_VALUE,
    stage=ctypes.c_int,
    arguments=_Buffers,
    results=_Buffers,
    attributes=_Attributes,
    future=_VALUE,
)
_StreamGet = _structure(execution=_VALUE, stream=_VALUE)
_ErrorCreate = _structure(message=ctypes.c_char_p, code=ctypes.c_int)
_Version = _structure(major=ctypes.c_int, minor=ctypes.c_int)
_Function = ctypes.CFUNCTYPE(_VALUE, _VALUE)
_Api = _structure(
    version=_Version,
    internal=_VALUE,
    error_create=_Function,
    error_get_message=_VALUE,
    error_destroy=_VALUE,
    handler_register=_VALUE,
    stream_get=_Function,
    rest=_VALUE * 11,
)

_ERROR = 77  # stands for the address of an error


class XlaError(Exception):
    """What a handler has answered."""


class FakeXla:
    """Makes custom calls on one stream."""

    def __init__(self, handler: object, stream: int) -> None:
        get = ctypes.PYFUNCTYPE(_VALUE, ctypes.py_object, ctypes.c_char_p)(
            ("PyCapsule_GetPointer", ctypes.pythonapi)
        )
        # Without Python's lock, as XLA calls it.
        self._handler = ctypes.CFUNCTYPE(_VALUE, _VALUE)(get(handler, b"xla._CUSTOM_CALL_TARGET"))
        self._stream = stream
        self._message = ""
        self._api = _Api(error_create=_Function(self._fail), stream_get=_Function(self._get))

    def _fail(self, arguments: int) -> int:
        self._message = _ErrorCreate.from_address(arguments).message.decode()
        return _ERROR

    def _get(self, arguments: int) -> int:
        _StreamGet.from_address(arguments).stream = self._stream
        return 0

    def call(self, text: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Make a call on arrays of a GPU; raise if it fails."""
        kept: list[Any] = []

        def buffers(arrays: Sequence[Any]) -> Any:
            made = [self._buffer(array, kept) for array in arrays]
            places = (_VALUE * len(made))(*map(ctypes.addressof, made))
            kept.extend((*made, places))
            return _Buffers(size=len(made), buffers=places)

        name, value = _Text(b"call", 4), _Text(text.encode(), len(text.encode()))
        attributes = _Attributes(
            size=1,
            kinds=(ctypes.c_int * 1)(_TEXT),
            names=(_VALUE * 1)(ctypes.addressof(name)),
            values=(_VALUE * 1)(ctypes.addressof(value)),
        )
        frame = _Frame(
            api=ctypes.addressof(self._api),
            arguments=buffers(inputs),
            results=buffers(outputs),
            attributes=attributes,
        )
        answer = self._handler(ctypes.addressof(frame))
        assert not frame.future, "XLA would not wait for it"
        if answer:
            assert answer == _ERROR
            raise XlaError(self._message)

    def _buffer(self, array: Any, kept: list[Any]) -> Any:
        shape = (ctypes.c_int64 * len(array.shape))(*array.shape)
        kept.append(shape)
        kind = _DATA_TYPES[np.dtype(array.dtype).name]
        return _Buffer(data_type=kind, data=array.address, rank=len(array.shape), dimensions=shape)
