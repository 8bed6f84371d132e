"""Trains a small network on scikit-learn's handwritten digits, with MXNet's Gluon.

Run it: bps run -np 2 --servers 2 python examples/mxnet_digits.py
Alone, without byteps: python examples/mxnet_digits.py --alone. Both see the same batches, so both
learn the same, whatever the number of workers.
"""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
from digits import BATCH, TRAINED_ON, arguments_of, load_data
from mxnet import autograd, gluon

import byteps.mxnet as bps


def make_net(dtype: str) -> Any:
    """Return a small convolutional network."""
    net = gluon.nn.HybridSequential()
    net.add(
        gluon.nn.Conv2D(16, 3, padding=1, activation="relu"),
        gluon.nn.MaxPool2D(2),
        gluon.nn.Flatten(),
        gluon.nn.Dense(64, activation="relu"),
        gluon.nn.Dense(10),
    )
    net.cast(dtype)
    return net


def train(alone: bool, epochs: int, dtype: str) -> Any:
    """Train, and report loss and accuracy after each epoch."""
    rank, size = (0, 1) if alone else (bps.rank(), bps.size())
    images, labels = (mx.nd.array(one, dtype=dtype) for one in load_data(dtype))
    images = images.reshape((-1, 1, 8, 8))
    net = make_net(dtype)
    mx.random.seed(rank)  # different weights, until rank 0's are broadcast
    net.initialize(mx.init.Xavier())
    net.hybridize()
    settings = {"learning_rate": 0.05, "momentum": 0.9}
    if alone:
        trainer = gluon.Trainer(net.collect_params(), "sgd", settings, kvstore=None)
    else:
        # The sizes of the layers are not known yet: each parameter is broadcast when it is there.
        bps.broadcast_parameters(net.collect_params(), root_rank=0)
        trainer = bps.DistributedTrainer(net.collect_params(), "sgd", settings)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()

    for epoch in range(epochs):
        order = np.random.default_rng(epoch).permutation(TRAINED_ON)
        total = mx.nd.zeros((1,), dtype=dtype)
        for batch in order.reshape(-1, BATCH):
            mine = mx.nd.array(np.array_split(batch, size)[rank], dtype="int32")
            with autograd.record():
                losses = loss_of(net(images.take(mine)), labels.take(mine))
            losses.backward()
            trainer.step(BATCH // size)
            total += losses.sum()
        if not alone:
            total = bps.allreduce(total, name="loss", op=bps.Sum)
        right = net(images[TRAINED_ON:]).argmax(axis=1) == labels[TRAINED_ON:]
        if rank == 0:
            loss, accuracy = total.asscalar() / TRAINED_ON, right.mean().asscalar()
            print(f"epoch {epoch + 1}/{epochs}: loss {loss:.4f}, accuracy {accuracy:.1%}")
    return net


def main() -> None:
    """Train as the arguments say."""
    arguments = arguments_of(__doc__)
    if not arguments.alone:
        bps.init()
    net = train(arguments.alone, arguments.epochs, arguments.dtype)
    if not arguments.alone:
        bps.check_replicas(net.collect_params())
    if arguments.weights and (arguments.alone or bps.rank() == 0):
        params = net.collect_params()
        np.savez(arguments.weights, *[param.data().asnumpy() for param in params.values()])
    if not arguments.alone:
        bps.shutdown()


if __name__ == "__main__":
    main()
