"""A program in the style of Horovod's documentation for Keras: a layer that each rank has for
itself, several batches per step, and predictions of all ranks; the import is changed."""

import keras
import numpy as np

import byteps.keras as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()
keras.utils.set_random_seed(7)
own = keras.layers.Dense(6, name="own")
model = keras.Sequential([keras.Input((5,)), own, keras.layers.Dense(1)])
optimizer = hvd.PartialDistributedOptimizer(
    keras.optimizers.Adam(0.01), local_layers=[own], backward_passes_per_step=2
)
model.compile(optimizer, loss="mse")
dice = np.random.default_rng(rank)
inputs = dice.normal(size=(35, 5)).astype("float32")
labels = inputs[:, :1] * (rank + 1)
model.fit(inputs, labels, batch_size=5, epochs=4, shuffle=False, verbose=0)

weights = hvd.allgather_object([w.tolist() for w in model.get_weights()])
for place, is_own in enumerate([True, True, False, False]):
    different = {str(one[place]) for one in weights}
    assert len(different) == (size if is_own else 1), place

# Ranks have different numbers of predictions.
predictions = model.predict(inputs[: 3 + rank], verbose=0)
gathered = hvd.allgather(predictions, name="predictions")
assert gathered.shape == (sum(3 + r for r in range(size)), 1)
begin = sum(3 + r for r in range(rank))
assert gathered[begin : begin + 3 + rank].tolist() == predictions.tolist()
tensor = hvd.allgather(keras.ops.convert_to_tensor(predictions), name="the same as a tensor")
assert keras.ops.convert_to_numpy(tensor[1:]).tolist() == gathered[1:].tolist()
assert float(keras.ops.max(tensor)) == float(gathered.max())
print("all right")
