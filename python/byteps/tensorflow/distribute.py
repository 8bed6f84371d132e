"""`tf.distribute` with several processes: TensorFlow's strategy combines the devices of a process,
and byteps combines the processes.

Example::

    from byteps.tensorflow.distribute import MirroredStrategy

    bps.init()
    strategy = MirroredStrategy()
    with strategy.scope():
        model = make_model()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from byteps.common.operations.reduction import Average, ReduceOp
from byteps.common.session.process_sets import ProcessSet, global_process_set, has_others
from byteps.tensorflow.errors import with_tensorflow_errors
from byteps.tensorflow.reductions import grouped_allreduce

__all__ = ["CrossDeviceOps", "MirroredStrategy"]

_OnOneDevice: Any = tf.distribute.ReductionToOneDevice
_Mirrored: Any = tf.distribute.MirroredStrategy


class CrossDeviceOps(_OnOneDevice):
    """Combines what the replicas of a process reduce together, such as gradients, over all
    processes, too.

    `strategy.reduce` is for values on the host, such as metrics: it stays within the process.

    Example::

        strategy = tf.distribute.MirroredStrategy(cross_device_ops=CrossDeviceOps())
    """

    def __init__(
        self, op: ReduceOp = Average, process_set: ProcessSet = global_process_set
    ) -> None:
        """Combine the processes' values with `op`. The replicas of a process combine theirs first,
        as TensorFlow is told."""
        super().__init__()
        self._op = op
        self._process_set = process_set

    @with_tensorflow_errors
    def batch_reduce(
        self,
        reduce_op: Any,
        value_destination_pairs: Sequence[tuple[Any, Any]],
        options: Any = None,
    ) -> list[Any]:
        """Return the combinations, each on its destinations."""
        pairs = list(value_destination_pairs)
        found: list[Any] = super().batch_reduce(reduce_op, pairs, options)
        if not pairs or not has_others(self._process_set):
            return found
        strategy = tf.distribute.get_strategy()
        own = [strategy.experimental_local_results(one)[0] for one in found]
        combined = grouped_allreduce(own, op=self._op, process_set=self._process_set)
        return [
            self.broadcast(one, destinations)
            for one, (_, destinations) in zip(combined, pairs, strict=True)
        ]


class MirroredStrategy(_Mirrored):
    """A tf.distribute.MirroredStrategy whose gradients are averaged over all processes.

    All processes must start from the same weights: call `bps.broadcast_variables`.

    Example::

        strategy = MirroredStrategy(devices=[f"GPU:{bps.local_rank()}"])
    """

    def __init__(self, devices: Any = None, cross_device_ops: Any = None) -> None:
        """Use some devices of this process, or all of them. Another `cross_device_ops` than one of
        byteps is accepted for programs written for the original, and not used."""
        if not isinstance(cross_device_ops, CrossDeviceOps):
            cross_device_ops = CrossDeviceOps()
        super().__init__(devices, cross_device_ops)
