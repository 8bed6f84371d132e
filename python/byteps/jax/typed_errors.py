"""Errors of exchanges inside programs, which JAX raises as errors of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax

from byteps.common.programs.program_errors import error_of


@contextlib.contextmanager
def typed_errors() -> Iterator[None]:
    """Raise errors of exchanges inside jit as they are raised outside: MismatchError, ...

    Example::

        with bps.typed_errors():
            state = train_step(state, batch)
    """
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        found = error_of(error)
        if found is None:
            raise
        raise found from error
