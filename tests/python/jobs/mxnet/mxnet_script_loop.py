"""A script with a loop of its own, as programs for Horovod are written: only the import is
another. It averages gradients itself, in groups, and its metrics among some ranks."""

import old_numpy  # noqa: F401

import mxnet as mx  # isort: skip
import numpy as np
from mxnet import autograd, gluon

import byteps.mxnet as hvd

hvd.init(process_sets=[hvd.ProcessSet([0])])
rank, size = hvd.rank(), hvd.size()
assert hvd.mpi_threads_supported() in (True, False)

net = gluon.nn.Sequential()
net.add(gluon.nn.Dense(16, activation="relu"), gluon.nn.Dropout(0.1), gluon.nn.Dense(1))
net.initialize(mx.init.Xavier())
net(mx.nd.zeros((1, 4)))  # the parameters have their sizes now
params = net.collect_params()
hvd.broadcast_parameters(params, root_rank=0)
updater = mx.optimizer.get_updater(
    mx.optimizer.create("adam", learning_rate=0.01, rescale_grad=1.0 / 8)
)

settings = hvd.broadcast_object({"steps": 10} if rank == 0 else None, root_rank=0, name="settings")
dice = np.random.default_rng(rank)
for _step in range(settings["steps"]):
    inputs = mx.nd.array(dice.normal(size=(8, 4)))
    with autograd.record():
        loss = (net(inputs) - inputs.sum(axis=1, keepdims=True)) ** 2
    loss.backward()
    gradients = [params[key].grad() for key in sorted(params.keys())]
    hvd.grouped_allreduce_(gradients, name="gradients", priority=0, op=hvd.Average)
    for index, key in enumerate(sorted(params.keys())):
        updater(index, params[key].grad(), params[key].data())

mean = hvd.allreduce(loss.mean(), name="loss", op=hvd.Average).asscalar()
losses = hvd.allgather(loss.mean().reshape((1,)), name="losses").asnumpy()
assert losses.shape == (size,)
assert abs(losses.mean() - mean) < 1e-5
shares, counts = hvd.alltoall(mx.nd.arange(size), splits=mx.nd.ones(size, dtype="int32"))
assert (shares.asnumpy() == rank).all()
assert counts.sum().asscalar() == size
part = hvd.reducescatter(mx.nd.ones((2 * size, 3)), op=hvd.Sum)
assert part.shape == (2, 3)
assert (part.asnumpy() == size).all()
for key in sorted(params.keys()):
    copy = hvd.broadcast(params[key].data(), root_rank=size - 1, name=f"last {key}")
    assert (copy.asnumpy() == params[key].data().asnumpy()).all(), key
print(f"all right {rank}/{size}")
hvd.shutdown()
