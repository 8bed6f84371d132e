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
from byteps.keras_common.learning_rate import RateSchedule, RateWarmup
from byteps.keras_common.metrics import BestModel, MetricAverage
from byteps.keras_common.weights import BroadcastOnce

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]


class BroadcastGlobalVariablesCallback(BroadcastOnce, keras.callbacks.Callback):
    """Gives all ranks the weights and the optimizer's state of the root, after the first batch.

    Arguments: (root_rank, device='', local_variables=None). Local variables, one or a list, stay.

    Example::

        callbacks = [bps.callbacks.BroadcastGlobalVariablesCallback(0)]
    """

    byteps_keras = KERAS


class MetricAverageCallback(MetricAverage, keras.callbacks.Callback):
    """Averages the metrics over all ranks at the end of each epoch.

    Put it before callbacks that read metrics.

    Example::

        callbacks = [bps.callbacks.MetricAverageCallback()]
    """


class BestModelCheckpoint(BestModel, keras.callbacks.ModelCheckpoint):
    """Saves the model on rank 0 whenever a metric is better than before.

    Arguments: (monitor='val_loss', verbose=0, mode='auto', save_freq='epoch', filepath=None,
    save_weights_only=False). Put it after MetricAverageCallback.

    Example::

        callbacks = [bps.callbacks.BestModelCheckpoint(monitor="loss", filepath="best.keras")]
    """


class LearningRateScheduleCallback(RateSchedule, keras.callbacks.Callback):
    """Sets the learning rate to initial_lr * multiplier(epoch) in some epochs.

    Arguments of the original: (multiplier, start_epoch=0, end_epoch=None, staircase=True,
    momentum_correction=True, steps_per_epoch=None, initial_lr=None). Of Horovod: (initial_lr,
    multiplier, start_epoch=0, ...). The types tell which order it is.

    Example::

        callbacks = [bps.callbacks.LearningRateScheduleCallback(
            initial_lr=0.1, multiplier=lambda epoch: 0.5**epoch)]
    """

    byteps_keras = KERAS


class LearningRateWarmupCallback(RateWarmup, keras.callbacks.Callback):
    """Raises the learning rate from initial_lr / size to initial_lr in the first epochs.

    Arguments of the original: (warmup_epochs=5, momentum_correction=True, steps_per_epoch=None,
    verbose=0, initial_lr=None). Of Horovod: (initial_lr, warmup_epochs=5, ...).

    Example::

        callbacks = [bps.callbacks.LearningRateWarmupCallback(initial_lr=0.1, warmup_epochs=3)]
    """

    byteps_keras = KERAS
