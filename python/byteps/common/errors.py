"""The error codes of the C interface as exceptions. docs/errors.md explains each one."""

from __future__ import annotations

import re
from typing import ClassVar, TypeVar

__all__ = [
    "BytepsError",
    "DeadlineError",
    "DuplicateNameError",
    "EvictedError",
    "ExhaustedError",
    "HorovodInternalError",
    "InternalError",
    "InvalidArgumentError",
    "MismatchError",
    "NotInitializedError",
    "OutOfStepError",
    "PeerLostError",
    "ProtocolError",
    "RefusedError",
    "ReplicasDifferError",
    "ShutdownError",
    "UnavailableError",
]


AnError = TypeVar("AnError", bound=Exception)


def without_traceback(error: AnError) -> AnError:
    """Return an error that says the same. A traceback keeps all that its frames have."""
    bare = type(error).__new__(type(error), *error.args)
    bare.__dict__.update(error.__dict__)
    return bare


class BytepsError(RuntimeError):
    """An operation, or joining the job, did not succeed; the text says what to do next.

    Example::

        try:
            bps.allreduce(tensor, name="loss")
        except bps.BytepsError as error:
            logging.error("the exchange failed: %s", error)
    """

    code: ClassVar[int] = 12


# What programs written for Horovod catch when a collective operation fails.
HorovodInternalError = BytepsError


class InvalidArgumentError(BytepsError, ValueError):
    """An argument or an option is not usable."""

    code = 1


class MismatchError(BytepsError, ValueError):
    """Ranks disagree about the name, shape, type or operation of a tensor."""

    code = 2


class OutOfStepError(MismatchError):
    """Ranks wait for each other: they made other calls, or the same ones in another order."""

    code = 13


class ReplicasDifferError(MismatchError):
    """The ranks' weights are not equal; ``check_replicas`` raises it on every rank."""


class DuplicateNameError(BytepsError, ValueError):
    """A tensor of this name is still on its way."""

    code = 3


class PeerLostError(BytepsError):
    """A process that the operation depended on is gone."""

    code = 4


class EvictedError(BytepsError):
    """The others went on without this process, because it was silent for too long."""

    code = 5


class DeadlineError(BytepsError):
    """The time limit passed."""

    code = 6


class ShutdownError(BytepsError):
    """The session was shut down before the operation was complete."""

    code = 7


class RefusedError(BytepsError):
    """The job does not let this process in, or must not do what it asks for."""

    code = 8


class ProtocolError(BytepsError):
    """A peer sent something that makes no sense."""

    code = 9


class UnavailableError(BytepsError):
    """Something that is needed cannot be reached or is not there."""

    code = 10


class ExhaustedError(BytepsError):
    """A limit on memory, handles or names is reached."""

    code = 11


class InternalError(BytepsError):
    """A defect of this library."""

    code = 12


class NotInitializedError(BytepsError, ValueError):
    """``init`` has not been called, or ``shutdown`` has."""

    code = 1

    def __init__(self) -> None:
        super().__init__("BytePS has not been initialized; use bps.init().")


_BY_CODE: dict[int, type[BytepsError]] = {
    error.code: error
    for error in (
        InvalidArgumentError,
        MismatchError,
        OutOfStepError,
        DuplicateNameError,
        PeerLostError,
        EvictedError,
        DeadlineError,
        ShutdownError,
        RefusedError,
        ProtocolError,
        UnavailableError,
        ExhaustedError,
        InternalError,
    )
}


# What a rank says that an exception ends, and what stands in front of that at the other ranks.
GIVES_UP = "an exception ended it: "
_PASSED_ON = re.compile(rf"^worker \d+ .*?was lost: {GIVES_UP}(\w+): ")
_OF_SEVERAL = {
    kind.__name__: kind
    for kind in (MismatchError, OutOfStepError, ReplicasDifferError, DeadlineError)
}


def error_from_code(code: int, message: str) -> BytepsError:
    """Return the exception for a code of the C interface. The native module calls this.

    If another rank has ended because ranks disagree, or have waited too long for each other, this
    rank is one of them. So its exception has the kind of the other one's.
    """
    kind = _BY_CODE.get(code, InternalError)
    passed_on = _PASSED_ON.match(message) if kind is PeerLostError else None
    if passed_on is not None:
        kind = _OF_SEVERAL.get(passed_on[1], kind)
    return kind(message)


def is_passed_on(error: BytepsError) -> bool:
    """Return whether another rank has ended with this error, and this one has heard of it."""
    return _PASSED_ON.match(str(error)) is not None
