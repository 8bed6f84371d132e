"""Hooks that tell a wrapper of a finished gradient, as long as the wrapper lives."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

from byteps.torch.compile_guard import untraced

_Owner = TypeVar("_Owner")


def watch_gradient(
    parameter: torch.Tensor, owner: _Owner, on_gradient: Callable[[_Owner, torch.Tensor], None]
) -> None:
    """Call `on_gradient` when backward has finished a gradient, as long as the owner lives.

    The parameter does not keep it alive: a model may be wrapped again when its wrapper is dropped.
    """
    this = weakref.ref(owner)

    @untraced
    def hook(parameter: torch.Tensor) -> None:
        living = this()
        if living is not None:
            on_gradient(living, parameter)

    remove_with(owner, cast(Any, parameter).register_post_accumulate_grad_hook(hook))


def remove_with(owner: object, hook: Any) -> None:
    """Remove a hook, by the handle that torch gave for it, when the owner is dropped."""
    weakref.finalize(owner, hook.remove).atexit = False
