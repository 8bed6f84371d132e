"""A user's program for TensorFlow, as a checker of types sees it. Never run."""

import tensorflow as tf

import byteps.tensorflow as bps
import byteps.tensorflow.keras as bps_keras
from byteps.tensorflow.distribute import CrossDeviceOps, MirroredStrategy

bps.init()
variable = tf.Variable(1.0)
with tf.GradientTape() as tape:
    loss = variable * 2
tape = bps.DistributedGradientTape(tape, compression=bps.Compression.bf16, op=bps.Sum)
mean = bps.allreduce(loss, name="loss", prescale_factor=0.5)
bps.broadcast_variables([variable], root_rank=0)
hooks = [bps.BroadcastGlobalVariablesHook(0)]
layer = bps.SyncBatchNormalization()
count: int = bps.local_size()
error = bps.error_of(RuntimeError("a text"))
if error is not None:
    raise error
strategy = MirroredStrategy(cross_device_ops=CrossDeviceOps(op=bps.Sum))
optimizer = bps_keras.DistributedOptimizer(tf.keras.optimizers.Adam(), op=bps.Average)
callbacks = [bps_keras.callbacks.MetricAverageCallback()]

bps.allreduce(loss, op="Sum")  # type: ignore[arg-type]
bps.broadcast(loss)  # type: ignore[call-arg]
bps.all_reduce(loss)  # type: ignore[attr-defined]
bps.elastic.run(print)  # type: ignore[attr-defined]
bps_keras.DistributedOptimiser(optimizer)  # type: ignore[attr-defined]
