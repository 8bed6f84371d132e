"""Errors of exchanges inside programs, which JAX raises as errors of its own."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import jax

from byteps.common.errors import BytepsError, error_from_code

# What the native module writes: XlaCall::Fail.
_TEXT = re.compile(r"byteps error (\d+): (.*)", re.DOTALL)


def error_of(error: BaseException) -> BytepsError | None:
    """Return the error of an exchange that `error`, of a program, tells of; None if of none.

    Example::

        try:
            state = train_step(state, batch)
        except jax.errors.JaxRuntimeError as error:
            if isinstance(bps.error_of(error), bps.PeerLostError):
                save(state)
            raise
    """
    if isinstance(error, BytepsError):
        return error
    found = _TEXT.search(str(error))
    return None if found is None else error_from_code(int(found[1]), found[2])


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
