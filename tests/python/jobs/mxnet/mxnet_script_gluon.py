"""A Gluon script as programs for Horovod are written: only the import is another."""

import old_numpy  # noqa: F401

import mxnet as mx  # isort: skip
import numpy as np
from mxnet import autograd, gluon

import byteps.mxnet as hvd

BATCH = 8

hvd.init()
context = mx.cpu()
dice = np.random.default_rng(hvd.rank())
images = dice.normal(size=(64, 1, 8, 8)).astype("float32")
labels = (images.mean(axis=(1, 2, 3)) > 0).astype("float32")
data = mx.io.NDArrayIter(images, labels, batch_size=BATCH)

net = gluon.nn.HybridSequential()
net.add(
    gluon.nn.Conv2D(channels=8, kernel_size=3, activation="relu"),
    gluon.nn.MaxPool2D(pool_size=2, strides=2),
    gluon.nn.Flatten(),
    gluon.nn.Dense(2),
)
net.hybridize()
net.initialize(mx.init.Xavier(), ctx=context)

# The layers' sizes are not known yet: the parameters are broadcast when they are.
params = net.collect_params()
hvd.broadcast_parameters(params, root_rank=0)
optimizer = mx.optimizer.create("sgd", momentum=0.9, learning_rate=0.01 * hvd.size())
trainer = hvd.DistributedTrainer(params, optimizer)
loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
metric = mx.metric.Accuracy()

for _ in range(3):
    data.reset()
    metric.reset()
    for batch in data:
        inputs = batch.data[0].as_in_context(context)
        targets = batch.label[0].as_in_context(context)
        with autograd.record():
            output = net(inputs)
            loss = loss_fn(output, targets)
        loss.backward()
        trainer.step(BATCH)
        metric.update([targets], [output])

name, accuracy = metric.get()
mean = hvd.allreduce(mx.nd.array([accuracy]), name="accuracy").asscalar()
every = hvd.allgather_object(accuracy)
assert abs(mean - np.mean(every)) < 1e-6
first = hvd.allgather(params[sorted(params.keys())[0]].data().reshape((1, -1)))
assert (first.asnumpy() == first[0].asnumpy()).all()
print(f"all right {hvd.rank()}/{hvd.size()}")
hvd.shutdown()
