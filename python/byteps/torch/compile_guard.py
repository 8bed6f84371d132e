"""Functions that torch.compile leaves alone."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

# Whether this torch, from 2.4 on, can take operations from Python: byteps.torch.compiled.
HAS_OPERATIONS = hasattr(torch.library, "register_fake")
# Asked in functions that have an operation of their own under torch.compile.
is_compiling: Callable[[], bool] = torch.compiler.is_compiling if HAS_OPERATIONS else bool

Function = TypeVar("Function", bound=Callable[..., Any])


def untraced(function: Function) -> Function:
    """Return a function that Dynamo does not look into, also when C++ calls it while it traces."""
    disabled: list[Callable[..., Any]] = []

    @functools.wraps(function)
    def call(*arguments: Any, **more: Any) -> Any:
        if "torch._dynamo" not in sys.modules:  # importing it takes longer than most exchanges
            return function(*arguments, **more)
        if not disabled:
            disabled.append(torch.compiler.disable(function))
        return disabled[0](*arguments, **more)

    return cast(Function, call)
