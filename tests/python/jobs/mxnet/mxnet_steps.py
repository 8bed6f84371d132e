"""A worker: many steps of training, during which somebody may kill a server."""

from __future__ import annotations

import numpy as np
import old_numpy  # noqa: F401

import mxnet as mx  # isort: skip
from mxnet import autograd, gluon, nd

import byteps.mxnet as bps

STEPS = 300


def main() -> None:
    bps.init()
    rank, size = bps.rank(), bps.size()
    net = gluon.nn.HybridSequential()
    for _ in range(3):
        net.add(gluon.nn.Dense(50, use_bias=False, in_units=50))
    net.initialize(mx.init.Constant(0))
    net.hybridize()
    trainer = bps.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    total = nd.zeros((1000,))
    for number in range(STEPS):
        with autograd.record():
            loss = net(nd.ones((1, 50))).sum() + (net[0].weight.data() * (rank + 1)).sum()
        loss.backward()
        trainer.step(1)
        mine = nd.full((1000,), number * (rank + 1))
        total += bps.allreduce(mine, op=bps.Sum, name=f"exact {number % 40}")
        if number % 20 == 0:
            mx.nd.waitall()  # or the engine would be steps behind
        if number == 20:
            print("stepping", flush=True)
    ranks = size * (size + 1) // 2
    assert (total.asnumpy() == STEPS * (STEPS - 1) // 2 * ranks).all()
    # The gradient of the second part is the mean of rank + 1; that of the first is zero.
    weights = net[0].weight.data().asnumpy()
    assert np.allclose(weights, -STEPS * (size + 1) / 2), weights[0, 0]
    bps.check_replicas(net.collect_params())
    print(f"all right {rank}/{size}")
    bps.shutdown()


main()
