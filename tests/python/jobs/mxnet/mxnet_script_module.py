"""A script with symbols and a Module, as programs for Horovod are written: only the import is
another."""

import old_numpy  # noqa: F401

import mxnet as mx  # isort: skip
import numpy as np

import byteps.mxnet as hvd

BATCH = 8

hvd.init()
dice = np.random.default_rng(hvd.rank())
images = dice.normal(size=(64, 1, 8, 8)).astype("float32")
labels = (images.mean(axis=(1, 2, 3)) > 0).astype("float32")
train = mx.io.NDArrayIter(images, labels, batch_size=BATCH, last_batch_handle="discard")

data = mx.sym.Variable("data")
layer = mx.sym.Convolution(data, num_filter=4, kernel=(3, 3), name="conv")
layer = mx.sym.BatchNorm(layer, name="norm")
layer = mx.sym.Activation(layer, act_type="relu")
layer = mx.sym.FullyConnected(layer, num_hidden=2, name="dense")
network = mx.sym.SoftmaxOutput(layer, name="softmax")

model = mx.mod.Module(symbol=network, context=mx.cpu())
model.bind(data_shapes=train.provide_data, label_shapes=train.provide_label)
model.init_params(mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2))

optimizer_params = {"learning_rate": 0.01 * hvd.size(), "rescale_grad": 1.0 / BATCH}
optimizer = mx.optimizer.create("sgd", momentum=0.9, **optimizer_params)
optimizer = hvd.DistributedOptimizer(optimizer)

arg_params, aux_params = model.get_params()
if arg_params is not None:
    hvd.broadcast_parameters(arg_params, root_rank=0)
if aux_params is not None:
    hvd.broadcast_parameters(aux_params, root_rank=0)
model.set_params(arg_params=arg_params, aux_params=aux_params)

model.fit(
    train, kvstore=None, optimizer=optimizer, num_epoch=3, eval_metric=mx.metric.Accuracy(),
    batch_end_callback=mx.callback.Speedometer(BATCH, 4) if hvd.rank() == 0 else None,
)  # fmt: skip
trained, _ = model.get_params()
for key, value in sorted(trained.items()):
    every = hvd.allgather(value.reshape((1, -1)), name=key).asnumpy()
    assert (every == every[0]).all(), key
print(f"all right {hvd.rank()}/{hvd.size()}")
