"""Callbacks for `model.fit` of Keras 3.

Example::

    model.fit(images, labels, callbacks=[
        bps.callbacks.BroadcastGlobalVariablesCallback(0),
        bps.callbacks.MetricAverageCallback(),
    ])
"""

from __future__ import annotations

import keras

from byteps.keras.access import KERAS
from byteps.keras_common.callbacks import callbacks_for

# Written out: the site's API pages are made without importing this.
__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]

_made = callbacks_for(__name__, keras.callbacks, KERAS)
BestModelCheckpoint = _made["BestModelCheckpoint"]
BroadcastGlobalVariablesCallback = _made["BroadcastGlobalVariablesCallback"]
LearningRateScheduleCallback = _made["LearningRateScheduleCallback"]
LearningRateWarmupCallback = _made["LearningRateWarmupCallback"]
MetricAverageCallback = _made["MetricAverageCallback"]
