"""What wrappers of optimizers and models have in common."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@contextmanager
def shared(optimizer: Any) -> Iterator[None]:
    """Keep the parameter groups and the state the objects that they are, whatever they hold then.

    An optimizer and its wrapper share them, and torch loads a state into new ones: a learning-rate
    scheduler of the inner optimizer would change groups that nobody steps with.
    """
    before = optimizer.__dict__
    groups, state = before["param_groups"], before["state"]
    dicts = list(groups)
    yield
    loaded, loaded_state = optimizer.__dict__["param_groups"], optimizer.__dict__["state"]
    if loaded is not groups:
        for group, values in zip(dicts, loaded, strict=True):
            group.clear()
            group.update(values)
        groups[:] = dicts
        optimizer.param_groups = groups
    if loaded_state is not state:
        state.clear()
        state.update(loaded_state)
        optimizer.state = state
