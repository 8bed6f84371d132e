"""The callbacks of either Keras, out of what they do and the classes of this Keras."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from byteps.keras_common.access import Keras
from byteps.keras_common.learning_rate import RateSchedule, RateWarmup
from byteps.keras_common.metrics import BestModel, MetricAverage
from byteps.keras_common.weights import BroadcastOnce

NAMES = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]


def callbacks_for(module: str, callbacks: ModuleType, keras: Keras) -> list[Any]:
    """Return the classes of NAMES for a Keras, whose own are in `callbacks`. They are to be found
    in `module`."""
    kinds = [BestModel, BroadcastOnce, RateSchedule, RateWarmup, MetricAverage]
    made: list[Any] = []
    for name, kind in zip(NAMES, kinds, strict=True):
        base = callbacks.ModelCheckpoint if kind is BestModel else callbacks.Callback
        members = {"__module__": module, "__doc__": kind.__doc__, "byteps_keras": keras}
        made.append(type(name, (kind, base), members))
    return made
