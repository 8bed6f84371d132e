"""Callbacks for `model.fit` of Keras 2.

Example::

    model.fit(images, labels, callbacks=[
        bps.callbacks.BroadcastGlobalVariablesCallback(0),
        bps.callbacks.MetricAverageCallback(),
    ])
"""

from __future__ import annotations

from byteps.keras_common.callbacks import callbacks_for
from byteps.tensorflow.keras.access import KERAS_2, keras

# Written out: the site's API pages are made without importing this.
__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]

_made = callbacks_for(__name__, keras.callbacks, KERAS_2)
BestModelCheckpoint = _made["BestModelCheckpoint"]
BroadcastGlobalVariablesCallback = _made["BroadcastGlobalVariablesCallback"]
LearningRateScheduleCallback = _made["LearningRateScheduleCallback"]
LearningRateWarmupCallback = _made["LearningRateWarmupCallback"]
MetricAverageCallback = _made["MetricAverageCallback"]
