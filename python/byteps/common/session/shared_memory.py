"""Memory for tensors that other ranks of the machine read where it lies."""

from __future__ import annotations

import ctypes
from typing import Any


class SharedMemory:
    """Memory of a session, as long as this or a buffer of it lives; also after the session."""

    __slots__ = ("_free", "_session", "address", "is_shared", "size_bytes")

    def __init__(self, session: int, address: int, size_bytes: int, is_shared: bool) -> None:
        """Own memory that the native session at an address has given."""
        from byteps import _core

        self._free = _core.free_shared  # when the interpreter ends nothing can be imported
        self._session = session
        self.address = address
        self.size_bytes = size_bytes
        self.is_shared = is_shared  # else it is the process' own

    def __del__(self) -> None:
        """Give it back."""
        self._free(self._session, self.address)

    def buffer(self) -> Any:
        """Return the bytes as an object with Python's buffer protocol, which keeps this alive."""
        buffer = (ctypes.c_ubyte * self.size_bytes).from_address(self.address)
        buffer.owner = self  # type: ignore[attr-defined]
        return buffer
