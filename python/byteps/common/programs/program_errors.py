"""Errors of exchanges inside programs, which a framework raises as errors of its own."""

from __future__ import annotations

import re

from byteps.common.errors import BytepsError, NotInitializedError, error_from_code

# What the native module writes: XlaCall::Fail and KernelRun::End.
_TEXT = re.compile(r"byteps error (\d+): (.*)", re.DOTALL)
# TensorFlow adds where in the graph it was.
_PLACE = re.compile(r"\n\s*\[\[\{\{node .*", re.DOTALL)


def error_of(error: BaseException) -> BytepsError | None:
    """Return the error of an exchange that `error`, of a program, tells of; None if of none.

    Example::

        try:
            state = train_step(state, batch)
        except Exception as error:
            if isinstance(bps.error_of(error), bps.PeerLostError):
                save(state)
            raise
    """
    if isinstance(error, BytepsError):
        return error
    found = _TEXT.search(str(error))
    if found is None:
        return None
    message = _PLACE.sub("", found[2])
    missing = NotInitializedError()
    return missing if message == str(missing) else error_from_code(int(found[1]), message)
