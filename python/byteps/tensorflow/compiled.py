"""Exchanges inside `tf.function(jit_compile=True)`: custom calls of XLA, as byteps.jax makes them.

TensorFlow has no public way to make one. The modules that this file imports are TensorFlow's own:
where they differ, users are asked for `jit_compile=False`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from byteps.common.errors import InvalidArgumentError
from byteps.common.operations.call import Call
from byteps.common.programs.program_exchange import Exchange
from byteps.common.programs.xla import TARGET
from byteps.common.session import default
from byteps.common.types import Operation

_ADVICE = "Use jit_compile=False for this function."
_VERSION_MIN = (2, 19)  # before, the structs of XLA's interface are others
_MODULE_VERSION = 9  # of XlaCallModule

# How XLA's programs call the types.
_TYPES = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "ui8",
    "uint32": "ui32",  # of gates
    "bool": "i1",
}


def is_here() -> bool:
    """Return whether the graph that is being made is one that XLA must compile."""
    if tf.executing_eagerly():
        return False
    asks = _in_xla()
    return asks is not None and bool(asks(tf.compat.v1.get_default_graph()))


@functools.cache
def _in_xla() -> Callable[[Any], bool] | None:
    try:
        from tensorflow.python.ops import control_flow_util

        return control_flow_util.GraphOrParentsInXlaContext  # type: ignore[no-any-return]
    except (ImportError, AttributeError):
        return None  # then TensorFlow says that XLA does not know the operation


def refuse(what: str) -> None:
    """Raise if the graph that is being made is one that XLA must compile."""
    if is_here():
        raise InvalidArgumentError(f"{what} is not supported with jit_compile=True. {_ADVICE}")


def agree(call: Call) -> Any:
    """Return a gate that opens when all ranks have come to a barrier."""
    default.current().expect_calls()
    return _make_call()(call, tf.zeros([], tf.uint8), _gate())


def _gate() -> Any:
    return tf.zeros([], tf.uint32)


def exchange_same(calls: Sequence[Call], tensors: Sequence[Any], gate: Any = None) -> list[Any]:
    """Return the results of exchanges, each of which starts when its tensor is there, and the gate
    if there is one."""
    default.current().expect_calls()  # the program will make them, on threads of XLA
    make = _make_call()
    gate = _gate() if gate is None else gate
    results = []
    for call, tensor in zip(calls, tensors, strict=True):
        if not tensor.shape.is_fully_defined():
            raise InvalidArgumentError(
                f"an exchange with jit_compile=True needs a shape that is known; this one is "
                f"{tensor.shape}. {_ADVICE}"
            )
        results.append(make(call, tensor, gate))
    return results


@functools.cache
def _make_call() -> Callable[[Call, Any, Any], Any]:
    """Return what makes a custom call; the first time, tell XLA of it."""
    version = tuple(int(part) for part in tf.__version__.split(".")[:2])
    if version < _VERSION_MIN:
        raise InvalidArgumentError(
            f"exchanges with jit_compile=True need TensorFlow 2.19; this is {tf.__version__}. "
            f"{_ADVICE}"
        )
    try:
        from tensorflow.compiler.tf2xla.ops import gen_xla_ops

        xla_call_module = gen_xla_ops.xla_call_module
    except (ImportError, AttributeError) as error:
        raise InvalidArgumentError(
            f"TensorFlow {tf.__version__} has no XlaCallModule where it is looked for. {_ADVICE}"
        ) from error
    from byteps import _core

    problem = _core.register_with_xla_of_tensorflow(TARGET)
    if problem:
        raise InvalidArgumentError(f"{problem}. {_ADVICE}")

    def make(call: Call, tensor: Any, gate: Any) -> Any:
        like = gate if call.operation is Operation.BARRIER else tensor
        (result,) = xla_call_module(
            [tensor, gate],
            version=_MODULE_VERSION,
            module=_program(Exchange.of(call).text(), tensor, like),
            Sout=[like.shape],
            Tout=[like.dtype],
            platforms=["CPU"],
            disabled_checks=[f"custom_call_target_name:{TARGET}"],
        )
        return result

    return make


def _program(text: str, tensor: Any, like: Any) -> str:
    """Return a program of XLA that makes the custom call, whose result has the shape of `like`."""
    given, result = _type_of(tensor), _type_of(like)
    quoted = text.replace("\\", "\\5C").replace('"', "\\22")
    return f"""
module @byteps {{
  func.func public @main(%tensor: {given}, %gate: tensor<ui32>) -> {result} {{
    %result = stablehlo.custom_call @{TARGET}(%tensor, %gate) {{
      api_version = 4 : i32, has_side_effect = true, backend_config = {{call = "{quoted}"}}
    }} : ({given}, tensor<ui32>) -> {result}
    return %result : {result}
  }}
}}
"""


def _type_of(tensor: Any) -> str:
    sizes = "".join(f"{size}x" for size in tensor.shape)
    return f"tensor<{sizes}{_TYPES[tensor.dtype.name]}>"
