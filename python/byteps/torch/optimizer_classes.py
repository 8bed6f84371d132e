"""Optimizers that are another optimizer and more: of a class that derives from its class."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

More = TypeVar("More", bound=torch.optim.Optimizer)


def extended(optimizer: torch.optim.Optimizer, more: type[More]) -> More:
    """Return an optimizer of a class with the same name that has the methods of `more` first.

    Everything is shared but a `step` that a learning-rate scheduler bound to the old object.
    """
    base = type(optimizer)
    derived = type(base.__name__, (more, base), {"__module__": base.__module__})
    result: More = object.__new__(derived)
    result.__dict__.update({k: v for k, v in optimizer.__dict__.items() if k != "step"})
    return result


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
