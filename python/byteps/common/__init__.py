"""What all framework plugins share: the session, its errors, and the programs of the package."""

from byteps.common.errors import (
    BytepsError,
    DeadlineError,
    DuplicateNameError,
    EvictedError,
    ExhaustedError,
    InternalError,
    InvalidArgumentError,
    MismatchError,
    NotInitializedError,
    PeerLostError,
    ProtocolError,
    RefusedError,
    ShutdownError,
    UnavailableError,
)

__all__ = [
    "BytepsError",
    "DeadlineError",
    "DuplicateNameError",
    "EvictedError",
    "ExhaustedError",
    "InternalError",
    "InvalidArgumentError",
    "MismatchError",
    "NotInitializedError",
    "PeerLostError",
    "ProtocolError",
    "RefusedError",
    "ShutdownError",
    "UnavailableError",
]
