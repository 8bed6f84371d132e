"""Errors as TensorFlow's users expect them: each is an error of byteps and of TensorFlow."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import tensorflow as tf

from byteps.common.errors import BytepsError, NotInitializedError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def tensorflow_error(error: BytepsError) -> BytepsError:
    """Return the error that is one of TensorFlow's, too: a MismatchError is also a
    FailedPreconditionError."""
    if isinstance(error, tf.errors.OpError):
        return error
    kind: Any = type(error)
    found: BytepsError = _class_of(kind)(None, None, str(error))
    return found


@functools.cache
def _class_of(kind: Any) -> Any:
    if kind is NotInitializedError:
        other: Any = tf.errors.FailedPreconditionError
    else:
        from byteps import _core

        code = _core.tensorflow_code(kind.code)
        other = tf.compat.v1.errors.exception_type_from_error_code(code)

    # AutoGraph makes another object of the class when it adds where in the program it was; it does
    # so with these arguments.
    def make(self: Any, node_def: Any, op: Any, message: str, *more: Any) -> None:
        other.__init__(self, node_def, op, message, *more)

    members = {"__init__": make, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (kind, other), members)


def with_tensorflow_errors(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let a function raise its errors as `tensorflow_error` makes them. In a tf.function, AutoGraph
    leaves the function and all that it calls as they are."""

    @functools.wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except BytepsError as error:
            found = tensorflow_error(error)
            if found is error:
                raise
            raise found from error

    unconverted: Callable[Parameters, Result] = tf.autograph.experimental.do_not_convert(call)
    return unconverted
