"""Calls that Horovod's documentation describes for TensorFlow, with the import changed."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import byteps.tensorflow as hvd

even = hvd.ProcessSet([0])
hvd.init(process_sets=[even])
rank, size = hvd.rank(), hvd.size()
assert hvd.local_rank() < hvd.local_size()
assert not hvd.mpi_enabled()
assert hvd.nccl_built() >= 0

# Process sets.
if even.included():
    alone = hvd.allreduce(tf.constant([1.0]), op=hvd.Sum, process_set=even)
    assert alone.numpy().tolist() == [1.0]

# Sparse gradients of an embedding, gathered and dense.
table = tf.Variable(tf.zeros([10, 2]))
for sparse_as_dense in (False, True):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [rank, 9]))
    tape = hvd.DistributedGradientTape(tape, sparse_as_dense=sparse_as_dense)
    (gradient,) = tape.gradient(loss, [table])
    assert isinstance(gradient, tf.IndexedSlices) is not sparse_as_dense
    assert np.allclose(tf.convert_to_tensor(gradient)[9], 1.0)

# Layers whose weights stay on their rank.
local = tf.keras.layers.Dense(2)
common = tf.keras.layers.Dense(1)
inputs = tf.ones([3, 4]) * float(rank + 1)
with tf.GradientTape(persistent=True) as tape:
    loss = tf.reduce_sum(common(tf.stop_gradient(local(inputs))) + tf.reduce_sum(local(inputs)))
sources = local.trainable_variables + common.trainable_variables
plain = tape.gradient(loss, sources)
tape = hvd.PartialDistributedGradientTape(tape, local_layers=local)
found = tape.gradient(loss, sources)
assert np.allclose(found[0], plain[0] / size)
assert np.allclose(found[3], 3.0)
own, shared = tape.get_local_and_global_gradients(loss, sources)
assert [len(own), len(shared)] == [2, 2]

# Uneven data: ranks that have finished join.
for _ in range(rank + 1):
    hvd.allreduce(tf.ones([4]), name="batch")
assert int(hvd.join()) == size - 1

# Metrics, objects, and rows for each rank.
assert hvd.allgather_object({"rank": rank})[-1] == {"rank": size - 1}
assert hvd.broadcast_object([1, 2] if rank == 0 else None, root_rank=0) == [1, 2]
received, splits = hvd.alltoall(tf.range(size), splits=[1] * size)
assert received.numpy().tolist() == [rank] * size
assert splits.numpy().tolist() == [1] * size
part = hvd.reducescatter(tf.ones([size, 3]), op=hvd.Sum)
assert part.numpy().tolist() == [[size] * 3]


@tf.function
def metrics(values):
    return hvd.grouped_allreduce(values, op=hvd.Average), hvd.size_op()


(first, second), count = metrics([tf.constant(float(rank)), tf.constant([rank, rank])])
assert float(first) == (size - 1) / 2
assert second.numpy().tolist() == [(size - 1) // 2] * 2
assert int(count) == size
caught = None
try:
    hvd.allreduce(tf.ones([2 + rank]), name="wrong")
except tf.errors.FailedPreconditionError as error:
    caught = error
assert isinstance(caught, hvd.HorovodInternalError)
print("all right")
