"""The arguments of the learning-rate callbacks, in the order of the original or of Horovod.

The original begins with `multiplier` or `warmup_epochs`, and has `initial_lr` last. Horovod begins
with `initial_lr`. The types and the keywords say which of the two the caller means.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

_SCHEDULE = {
    "multiplier": None,
    "start_epoch": 0,
    "end_epoch": None,
    "staircase": True,
    "momentum_correction": True,
    "steps_per_epoch": None,
    "initial_lr": None,
}
_WARMUP = {
    "warmup_epochs": 5,
    "momentum_correction": True,
    "steps_per_epoch": None,
    "verbose": 0,
    "initial_lr": None,
}


def schedule_arguments(arguments: Sequence[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of LearningRateScheduleCallback by name.

    The original: (multiplier, start_epoch=0, end_epoch=None, staircase=True,
    momentum_correction=True, steps_per_epoch=None, initial_lr=None). A constant multiplier stays
    the same in all epochs. Horovod: (initial_lr, multiplier, start_epoch=0, ...). A constant
    multiplier m means m ** (epoch - start_epoch).
    """
    is_horovods = bool(arguments) and _is_number(arguments[0]) and _has_rate(arguments, keywords)
    given = _bound("LearningRateScheduleCallback", _SCHEDULE, arguments, keywords, is_horovods)
    multiplier = given["multiplier"]
    if callable(multiplier):
        return given
    if not _is_number(multiplier):
        raise ValueError(
            f"LearningRateScheduleCallback: multiplier is {multiplier!r}; give a number, or a "
            "function of the epoch."
        )
    if is_horovods:
        given["multiplier"] = _power(float(multiplier), given["start_epoch"])
    else:
        given["multiplier"] = lambda _: float(multiplier)
        given["staircase"] = True
    return given


def _has_rate(arguments: Sequence[Any], keywords: dict[str, Any]) -> bool:
    """Return whether the first argument, a number, is a learning rate."""
    if len(arguments) > 1:
        second = arguments[1]
        is_epoch = isinstance(second, int) and not {"start_epoch", "multiplier"} & {*keywords}
        return not is_epoch
    return "multiplier" in keywords


def _power(base: float, start_epoch: int) -> Callable[[float], float]:
    return lambda epoch: base ** (epoch - start_epoch)


def warmup_arguments(arguments: Sequence[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of LearningRateWarmupCallback by name.

    The original: (warmup_epochs=5, momentum_correction=True, steps_per_epoch=None, verbose=0,
    initial_lr=None). Horovod: (initial_lr, warmup_epochs=5, ...).
    """
    is_horovods = bool(arguments) and _is_initial_rate(arguments, keywords)
    given = _bound("LearningRateWarmupCallback", _WARMUP, arguments, keywords, is_horovods)
    epochs = given["warmup_epochs"]
    if not _is_number(epochs) or epochs < 0:
        raise ValueError(
            f"LearningRateWarmupCallback: warmup_epochs is {epochs!r}; it must be a number of "
            "epochs."
        )
    return given


def _is_initial_rate(arguments: Sequence[Any], keywords: dict[str, Any]) -> bool:
    """Return whether the first argument is a learning rate."""
    if "warmup_epochs" in keywords:
        return True
    if "initial_lr" in keywords:
        return False
    if len(arguments) > 1:
        return not isinstance(arguments[1], bool)
    return not isinstance(arguments[0], numbers.Integral)


def _bound(
    function: str,
    defaults: dict[str, Any],
    arguments: Sequence[Any],
    keywords: dict[str, Any],
    rate_first: bool,
) -> dict[str, Any]:
    names = [name for name in defaults if name != "initial_lr"]
    names = ["initial_lr", *names] if rate_first else [*names, "initial_lr"]
    if len(arguments) > len(names):
        raise TypeError(f"{function} takes at most {len(names)} arguments.")
    given = dict(zip(names, arguments, strict=False))
    for name, value in keywords.items():
        if name not in defaults:
            raise TypeError(f"{function} has no argument '{name}'.")
        if name in given:
            raise TypeError(f"{function} got two values for '{name}'.")
        given[name] = value
    _check_rate(function, given.get("initial_lr"))
    return {**defaults, **given}


def _check_rate(function: str, rate: Any) -> None:
    try:
        if rate is not None:
            float(rate)
    except (TypeError, ValueError):
        raise ValueError(f"{function}: initial_lr is {rate!r}; it must be a number.") from None


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
