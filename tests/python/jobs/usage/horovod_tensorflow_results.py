"""What programs of TensorFlow do with results: more than twenty kernels, most of which look where
the memory of their inputs begins. Each is given rows that were gathered, sums and parts."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import byteps.tensorflow as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()
LENGTH = 4099  # a prime: nothing after it begins at a round place


def look_up(values):
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.range(5), tf.range(5) * 2), -1
    )
    return table.lookup(tf.cast(values, tf.int32))


def read_rows(values):
    rows = tf.data.Dataset.from_tensor_slices(values).batch(100)
    return tf.concat(list(rows), 0)


def scatter(values):
    variable = tf.Variable(values)
    variable.scatter_nd_update([[1], [3]], values[:2])
    return variable[1:]


def write_and_parse(values):
    return tf.io.parse_tensor(tf.io.serialize_tensor(values), values.dtype)


def through_python(values):
    return tf.py_function(lambda x: x + 1, [values], values.dtype)


def image(values):
    pixels = tf.reshape(values[:3072], [1, 32, 32, 3])
    return tf.image.resize(tf.cast(pixels, tf.float32), [8, 8])


def convolution(values):
    pixels = tf.reshape(tf.cast(values[:3072], tf.float32), [1, 32, 32, 3])
    return tf.nn.conv2d(pixels, tf.ones([3, 3, 3, 2]), 1, "SAME")


def product(values):
    square = tf.reshape(tf.cast(values[1:4097], tf.float32), [64, 64])
    return tf.matmul(square, square, transpose_b=True)


def ragged(values):
    return tf.RaggedTensor.from_row_lengths(values[:10], [3, 0, 7]).to_tensor()


def sparse(values):
    return tf.sparse.to_dense(tf.sparse.from_dense(tf.reshape(values[:4098], [2, -1])))


def normalized(values):
    return tf.linalg.normalize(tf.cast(values, tf.float64))[0]


USES = {
    "slice": lambda values: tf.slice(values, [1], [LENGTH - 1]),
    "strided slice": lambda values: values[1::3],
    "split": lambda values: tf.split(values[: LENGTH - 1], 2)[1] + 1,
    "unstack": lambda values: tf.add_n(tf.unstack(tf.reshape(values[:4098], [3, -1]))),
    "concat": lambda values: tf.concat([values[1:], values], 0),
    "pad": lambda values: tf.pad(values, [[1, 2]]),
    "reverse": lambda values: tf.reverse(values, [0]),
    "roll": lambda values: tf.roll(values, 5, 0),
    "sort": tf.sort,
    "top_k": lambda values: tf.math.top_k(values, 17).values,
    "unique": lambda values: tf.unique(values).y,
    "cumsum": lambda values: tf.cumsum(tf.cast(values, tf.int64)),
    "segment sum": lambda values: tf.math.segment_sum(values[:6], [0, 0, 1, 1, 1, 2]),
    "gather": lambda values: tf.gather(values, [LENGTH - 1, 0, 7]),
    "boolean mask": lambda values: tf.boolean_mask(values, values > 1),
    "where": lambda values: tf.where(values > 1),
    "one hot": lambda values: tf.one_hot(tf.cast(values, tf.int32), 5),
    "as string": lambda values: tf.strings.as_string(values[:9]),
    "reduce": lambda values: tf.reduce_max(tf.reshape(values[:4098], [2, -1]), 1),
    "cast": lambda values: tf.cast(values, tf.float16),
    "table": look_up,
    "dataset": read_rows,
    "variable": scatter,
    "files": write_and_parse,
    "Python": through_python,
    "image": image,
    "convolution": convolution,
    "product": product,
    "ragged": ragged,
    "sparse": sparse,
    "normalize": normalized,
}


def results(kind):
    """Every operation's result, of at least LENGTH elements, and its values as they should be."""
    parts = [(np.arange(LENGTH) * (r + 1) % 5).astype(kind) for r in range(size)]
    mine = tf.constant(parts[rank])
    total = sum(parts[1:], start=parts[0].copy())
    yield hvd.allgather(mine), np.concatenate(parts)
    yield hvd.allreduce(mine, op=hvd.Sum), total
    yield hvd.broadcast(mine, root_rank=1), parts[1]
    yield hvd.grouped_allreduce([mine[1:], mine], op=hvd.Sum)[1], total
    yield hvd.grouped_allgather([mine[:3], mine])[1], np.concatenate(parts)
    longer = tf.concat([mine] * size, 0)
    yield hvd.reducescatter(longer, op=hvd.Sum), total
    yield hvd.alltoall(longer, splits=[LENGTH] * size)[0], np.concatenate(parts)
    yield tf.function(hvd.allgather)(mine), np.concatenate(parts)


count = 0
for kind in ("uint8", "int32", "float32"):
    for result, expected in results(kind):
        for name, use in USES.items():
            found, right = use(result[:LENGTH]), use(tf.constant(expected[:LENGTH]))
            assert found.numpy().tolist() == right.numpy().tolist(), (name, kind)
            whole = use(result)  # as it came, without a slice before
            assert whole.dtype == right.dtype
            count += 1
assert count == 3 * 8 * len(USES) > 20
print("all right")
