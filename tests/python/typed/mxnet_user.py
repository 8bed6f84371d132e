"""A user's program for MXNet, as a checker of types sees it. Never run."""

import mxnet as mx

import byteps.mxnet as bps

bps.init()
net = mx.gluon.nn.Dense(2)
bps.broadcast_parameters(net.collect_params(), root_rank=0)
trainer = bps.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, root_rank=0)
trainer.step(4)
optimizer = bps.DistributedOptimizer(mx.optimizer.create("sgd"), num_groups=2)
loss = bps.allreduce(mx.nd.ones(3), name="loss", priority=1, op=bps.Sum)
bps.byteps_push_pull(loss, name="gradient", is_average=True)

trainer.step()  # type: ignore[call-arg]
bps.allreduce(loss, op=0)  # type: ignore[arg-type]
bps.byteps_push_pull(loss, priority="high")  # type: ignore[arg-type]
bps.pushpull(loss)  # type: ignore[attr-defined]
