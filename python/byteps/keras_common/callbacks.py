"""The callbacks of either Keras, out of what they do and the classes of this Keras."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from byteps.keras_common.access import Keras
from byteps.keras_common.learning_rate import RateSchedule, RateWarmup
from byteps.keras_common.metrics import BestModel, MetricAverage
from byteps.keras_common.weights import BroadcastOnce

_KINDS: dict[str, type] = {
    "BestModelCheckpoint": BestModel,
    "BroadcastGlobalVariablesCallback": BroadcastOnce,
    "LearningRateScheduleCallback": RateSchedule,
    "LearningRateWarmupCallback": RateWarmup,
    "MetricAverageCallback": MetricAverage,
}


def callbacks_for(module: str, callbacks: ModuleType, keras: Keras) -> dict[str, Any]:
    """Return the classes, by name, for a Keras whose own are in `callbacks`. They are to be found
    in `module`."""
    made: dict[str, Any] = {}
    for name, kind in _KINDS.items():
        base = callbacks.ModelCheckpoint if kind is BestModel else callbacks.Callback
        members = {"__module__": module, "__doc__": kind.__doc__, "byteps_keras": keras}
        made[name] = type(name, (kind, base), members)
    return made
