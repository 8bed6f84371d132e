"""The arguments of the learning-rate callbacks: the original and Horovod order them differently."""

from __future__ import annotations

from typing import Any

import pytest

from byteps.keras_common.arguments import schedule_arguments, warmup_arguments


def at(epoch: float, *arguments: Any, **keywords: Any) -> float:
    given = schedule_arguments(arguments, keywords)
    return float(given["multiplier"](epoch))


def half(epoch: float) -> float:
    return 0.5


@pytest.mark.parametrize(
    ("arguments", "keywords", "rate", "start"),
    [
        ((half,), {}, None, 0),
        ((half, 3), {}, None, 3),
        ((half,), {"initial_lr": 0.1}, 0.1, 0),
        ((0.1, half), {}, 0.1, 0),
        ((0.1, half, 3), {}, 0.1, 3),
        ((0.1,), {"multiplier": half, "start_epoch": 3}, 0.1, 3),
        ((), {"initial_lr": 0.1, "multiplier": half}, 0.1, 0),
    ],
)
def test_schedules_of_functions(arguments, keywords, rate, start) -> None:
    given = schedule_arguments(arguments, keywords)
    assert given["multiplier"] is half
    assert given["initial_lr"] == rate
    assert given["start_epoch"] == start


def test_constants_are_flat_in_the_original_and_powers_in_horovod() -> None:
    assert at(7, 0.5) == 0.5
    assert at(7, 0.5, 5) == 0.5  # an epoch comes second
    assert at(7, multiplier=0.5, start_epoch=5, initial_lr=0.1) == 0.5
    assert at(7, 0.5, 5, initial_lr=0.1) == 0.5
    assert at(7, 0.1, 0.5, 5) == 0.25
    assert at(7, 0.1, 2, start_epoch=5) == 4
    assert at(7, 0.1, multiplier=0.5, start_epoch=5) == 0.25
    assert schedule_arguments((), {"multiplier": 0.5, "staircase": False})["staircase"]


@pytest.mark.parametrize(
    ("arguments", "keywords", "rate", "epochs"),
    [
        ((), {}, None, 5),
        ((3,), {}, None, 3),
        ((3, False), {}, None, 3),
        ((3,), {"initial_lr": 0.1}, 0.1, 3),
        ((0.1,), {}, 0.1, 5),
        ((0.1, 3), {}, 0.1, 3),
        ((1, 3), {}, 1, 3),
        ((1,), {"warmup_epochs": 3}, 1, 3),
        ((), {"initial_lr": 0.1, "warmup_epochs": 3}, 0.1, 3),
    ],
)
def test_warmup(arguments, keywords, rate, epochs) -> None:
    given = warmup_arguments(arguments, keywords)
    assert given["initial_lr"] == rate
    assert given["warmup_epochs"] == epochs


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="no argument 'epochs'"):
        schedule_arguments((half,), {"epochs": 3})
    with pytest.raises(TypeError, match="two values for 'multiplier'"):
        schedule_arguments((half,), {"multiplier": half})
    with pytest.raises(TypeError, match="at most 5"):
        warmup_arguments((1, 2, 3, 4, 5, 6), {})
    with pytest.raises(ValueError, match="multiplier is None"):
        schedule_arguments((), {})
    with pytest.raises(ValueError, match="warmup_epochs is -1"):
        warmup_arguments((-1,), {})
    with pytest.raises(ValueError, match="initial_lr is 'fast'"):
        warmup_arguments(["fast"], {})
