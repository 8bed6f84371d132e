"""A class that cannot be told from an optimizer's own, except by what it does."""

from __future__ import annotations

from typing import Any

from byteps.keras_common.settings import Settings


def subclass(mixin: type, base: type, settings: Settings) -> type:
    """Return a subclass of `base` that does what `mixin` does first.

    It has the name of `base`: what Keras saves of its objects can be loaded without byteps.
    """
    made = type(
        base.__name__, (mixin, base), {"byteps_settings": settings, "__doc__": base.__doc__}
    )
    made.__qualname__ = base.__qualname__
    made.__module__ = base.__module__
    return made


def is_distributed(optimizer: Any) -> bool:
    """Return whether `subclass` has made the optimizer's class."""
    return hasattr(optimizer, "byteps_settings")
