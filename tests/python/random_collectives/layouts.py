"""How an array lies in memory: contiguous, with gaps, in another order, at odd addresses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from random_collectives.values import Array

_GAP = 0x5A


def _plain(array: Array) -> tuple[Array, Array]:
    base = array.copy()
    return base, base


def _strided(array: Array) -> tuple[Array, Array]:
    """Every second element of the last dimension."""
    if array.ndim == 0:
        return _offset(array)
    base = _gaps((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
    return base, base[..., 1::2]


def _transposed(array: Array) -> tuple[Array, Array]:
    base = _gaps(array.T.shape, array.dtype)
    return base, base.T


def _reversed(array: Array) -> tuple[Array, Array]:
    if array.ndim == 0:
        return _plain(array)
    base = _gaps(array.shape, array.dtype)
    return base, base[::-1]


def _offset(array: Array) -> tuple[Array, Array]:
    """A slice of a longer array: aligned for its type only."""
    base = _gaps((array.size + 3,), array.dtype)
    return base, base[1 : 1 + array.size].reshape(array.shape)


def _unaligned(array: Array) -> tuple[Array, Array]:
    """At an address that is odd."""
    base = _gaps((array.nbytes + 3,), np.dtype(np.uint8))
    begin = 1 if base.ctypes.data % 2 == 0 else 2
    return base, base[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)


def _swapped(array: Array) -> tuple[Array, Array]:
    """In the byte order that is not this machine's."""
    base = _gaps(array.shape, array.dtype.newbyteorder("S"))
    return base, base


def _gaps(shape: tuple[int, ...], dtype: np.dtype) -> Array:
    base: Array = np.empty(shape, dtype)
    base.reshape(-1).view(np.uint8)[:] = _GAP
    return base


_LAYOUTS: dict[str, Callable[[Array], tuple[Array, Array]]] = {
    "plain": _plain,
    "strided": _strided,
    "transposed": _transposed,
    "reversed": _reversed,
    "offset": _offset,
    "unaligned": _unaligned,
    "swapped": _swapped,
    "fixed": _plain,
}


@dataclass
class Laid:
    """An array with a layout, and what shows that nothing beside it was written."""

    view: Array
    _base: Array
    _values: Array
    _before: bytes

    @classmethod
    def of(cls, values: Array, layout: str) -> Laid:
        """Lay an array out; `fixed` cannot be written."""
        base, view = _LAYOUTS[layout](values)
        view[...] = values
        if layout == "fixed":
            view.flags.writeable = False
        return cls(view, base, values, base.tobytes())

    def damage(self, in_place: bool) -> str:
        """Return what was written that nobody may write; nothing if all is well."""
        if in_place:
            self.view[...] = self._values
        if self._base.tobytes() == self._before:
            return ""
        return "memory beside the tensor was written" if in_place else "the input was written"
