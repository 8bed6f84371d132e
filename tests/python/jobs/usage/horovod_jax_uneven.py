"""A script for Horovod as one would write it for JAX: ranks with more and less data join when they
have no more, and every collective operation is used. Only the import is byteps'."""

import jax
import jax.numpy as jnp
import numpy as np

import byteps.jax as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()
TRUTH = np.array([2.0, -1.0, 0.5], np.float32)

# Rank 0 has the most data.
batches = 3 + 2 * (size - rank)
dice = np.random.default_rng(rank)
inputs = dice.normal(size=(batches, 8, 3)).astype(np.float32)
lengths = hvd.allgather(jnp.array([batches]), name="lengths")
assert lengths.tolist() == [3 + 2 * (size - r) for r in range(size)]


@jax.jit
def train_step(weights, batch):
    def loss_of(weights):
        return ((batch @ weights - batch @ TRUTH) ** 2).mean()

    loss, gradient = jax.value_and_grad(loss_of)(weights)
    return weights - 0.2 * hvd.allreduce(gradient, name="gradient"), loss


weights = hvd.broadcast(jnp.full(3, float(rank), jnp.float32), root_rank=size - 1, name="weights")
assert (weights == size - 1).all()
for epoch in range(12):
    total = 0.0
    for batch in inputs:
        weights, loss = train_step(weights, batch)
        total += loss
    last = hvd.join()
    assert last == (0 if size > 1 else rank)  # the rank that had the most
    # The rank that joined last has taken every step: its weights are the ones to go on with.
    weights = hvd.broadcast_parameters(weights, root_rank=last)
    sums = hvd.allreduce(jnp.stack([total, jnp.float32(batches)]), op=hvd.Sum, name="sums")
    if rank == 0:
        print(f"epoch {epoch}: loss {sums[0] / sums[1]:.5f}", flush=True)
assert np.allclose(weights, TRUTH, atol=0.1), weights
hvd.check_replicas(weights)

# Every operation, each under a name of the user's and without one.
for name in ("mine", None):
    ones = jnp.ones((2 * size, 3))
    part = hvd.reducescatter(ones * rank, name=name, op=hvd.Sum)
    assert part.shape == (2, 3)
    assert (part == size * (size - 1) / 2).all()
    parts = hvd.grouped_reducescatter([ones, ones[:size]], op=hvd.Average)
    assert [p.shape for p in parts] == [(2, 3), (1, 3)]
    rows, counts = hvd.alltoall(
        jnp.repeat(jnp.arange(size), rank + 1), splits=[rank + 1] * size, name=name
    )
    assert (rows == rank).all()
    assert counts.tolist() == [r + 1 for r in range(size)]
    gathered = hvd.grouped_allgather([ones[:rank], jnp.array([rank])], name=name)
    assert gathered[0].shape == (size * (size - 1) // 2, 3)
    assert gathered[1].tolist() == list(range(size))
    for op, expected in ((hvd.Min, 0), (hvd.Max, size - 1), (hvd.Product, 0)):
        assert hvd.allreduce(jnp.int32(rank), op=op, name=name) == expected
    half = hvd.allreduce(ones * rank, compression=hvd.Compression.fp16, name=name)
    assert half.dtype == ones.dtype
    hvd.barrier()

error = None
try:
    hvd.allreduce(jnp.ones(2 + (rank == 0)), name="wrong")
except hvd.HorovodInternalError as found:
    error = found
assert (error is None) == (size == 1), error
assert hvd.join() in range(size)
hvd.shutdown()
print("all right")
