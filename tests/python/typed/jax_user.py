"""A user's program for JAX, as a checker of types sees it. Never run."""

import jax
import optax

import byteps.jax as bps

bps.init()
weights = bps.broadcast_parameters({"w": jax.numpy.ones(3)}, root_rank=0)
optimizer = bps.DistributedOptimizer(optax.sgd(0.1), op=bps.Average, name="Gradient")
pending = bps.push_pull_start(weights, average=False, name="weights")
weights = bps.push_pull_done(pending)
with bps.typed_errors():
    rows = bps.allgather(jax.numpy.ones(3), name="rows")
last: int = bps.join()

bps.push_pull_done(weights, 3)  # type: ignore[call-arg]
bps.allreduce(weights, op="mean")  # type: ignore[arg-type]
bps.psum(weights)  # type: ignore[attr-defined]
