"""Modules that wait for parameters that they are about to read."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, TypeVar, cast

import torch

from byteps.torch.compile_guard import untraced
from byteps.torch.gradient_hooks import remove_with

_Owner = TypeVar("_Owner")


class _Hook:
    """A hook of a module. In a copy of the module, also a pickled one, it does nothing."""

    def __init__(self, react: Callable[..., None]) -> None:
        self._react = react

    def __call__(self, *arguments: Any) -> None:
        self._react(*arguments)

    def __reduce__(self) -> Any:
        # A function that takes anything and does nothing, and needs nothing of ours to be loaded.
        return getattr, (contextlib.nullcontext(), "__exit__")


def watch_reading(
    model: torch.nn.Module,
    owner: _Owner,
    wait: Callable[[_Owner, Iterable[torch.Tensor]], None],
) -> None:
    """Call `wait` with parameters of the model that are about to be read, as long as `owner` lives.

    That is when a module's forward begins, before all other hooks: some compute weights. It reads
    its own parameters, and those of modules inside it that are never called, such as a
    ParameterList, or the out_proj of a MultiheadAttention. Which are called is known from the first
    forward on, in which there is nothing to wait for yet. Outside of training it may read
    everything inside, as faster ways to infer do.
    """
    this = weakref.ref(owner)
    called: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()

    @untraced
    def before_forward(module: torch.nn.Module, inputs: object) -> None:
        living = this()
        if living is not None:
            called.add(module)
            wait(living, _read_by(module, called))

    @untraced
    def before_state(*arguments: object) -> None:
        living = this()
        if living is not None:
            wait(living, model.parameters())

    for module in model.modules():
        if next(module.parameters(), None) is not None:
            hook = _Hook(before_forward)
            remove_with(owner, module.register_forward_pre_hook(hook, prepend=True))
    hook = _Hook(before_state)
    remove_with(owner, cast(Any, model).register_state_dict_pre_hook(hook))
    remove_with(owner, cast(Any, model)._register_load_state_dict_pre_hook(hook))


def _read_by(module: torch.nn.Module, called: Container[torch.nn.Module]) -> Iterator[torch.Tensor]:
    """Yield the parameters that a module may read itself."""
    if not module.training:
        yield from module.parameters()
        return
    yield from module.parameters(recurse=False)
    for child in module.children():
        if child not in called:
            yield from _read_by(child, called)
