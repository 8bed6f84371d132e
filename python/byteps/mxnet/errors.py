"""Errors as programs for MXNet catch them: each is an MXNetError, too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from mxnet.base import MXNetError, register_error

from byteps.common.errors import BytepsError, error_from_code

Function = TypeVar("Function", bound=Callable[..., Any])

# What the native module writes: MxnetCall::Fail.
_KIND = "byteps.error{}"
_CODES = range(1, 14)


@functools.cache
def _also_of_mxnet(kind: Any) -> Any:
    more = {"__doc__": kind.__doc__, "__module__": kind.__module__}
    return type(kind.__name__, (kind, MXNetError), more)


def as_mxnet_error(error: BytepsError) -> BytepsError:
    """Return the same error, as one that is an MXNetError, too."""
    if isinstance(error, MXNetError):
        return error
    original: Any = type(error)
    kind: type[BytepsError] = _also_of_mxnet(original)
    same = kind.__new__(kind, *error.args)  # some make their own texts
    return same.with_traceback(error.__traceback__)


def raises_mxnet_errors(function: Function) -> Function:
    """Make the errors that a function raises MXNetErrors, too."""

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except BytepsError as error:
            raise as_mxnet_error(error) from error.__cause__

    return call  # type: ignore[return-value]


def _make(code: int, text: str) -> BytepsError:
    return as_mxnet_error(error_from_code(code, text.removeprefix(f"{_KIND.format(code)}: ")))


def register() -> None:
    """Have MXNet raise what an operation in its engine has failed with as errors of byteps."""
    for code in _CODES:
        register_error(_KIND.format(code), functools.partial(_make, code))
