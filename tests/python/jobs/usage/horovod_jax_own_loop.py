"""A script for Horovod as one would write it for JAX, without optax: it averages gradients itself,
adds them up over several passes, clips them, and computes among some ranks. Only the import is
byteps'."""

import jax
import jax.numpy as jnp
import numpy as np

import byteps.jax as hvd

hvd.init(process_sets=[hvd.ProcessSet([0])])
rank, size = hvd.rank(), hvd.size()
assert hvd.local_rank() < hvd.local_size() <= size
assert hvd.nccl_built() >= 0
PASSES = 2

settings = {"steps": 40, "rate": 0.3, "norm": 1.0} if rank == 0 else None
settings = hvd.broadcast_object(settings, root_rank=0, name="settings")

TRUTH = jnp.array([[2.0], [-1.0], [0.5], [0.0]])
dice = np.random.default_rng(rank)


def loss_of(weights, inputs):
    return ((inputs @ weights["kernel"] + weights["bias"] - inputs @ TRUTH) ** 2).mean()


value_and_grad = jax.jit(jax.value_and_grad(loss_of))


@jax.jit
def apply(weights, sums):
    """Average the gradients over all ranks, clip the average, and take a step."""
    gradients = hvd.allreduce(sums, name="gradients", op=hvd.Average, prescale_factor=1 / PASSES)
    leaves = jax.tree.leaves(gradients)
    norm = jnp.sqrt(sum((leaf**2).sum() for leaf in leaves))
    scale = jnp.minimum(1.0, settings["norm"] / norm)
    rate = settings["rate"]
    return jax.tree.map(lambda w, g: w - rate * scale * g, weights, gradients), norm


weights = {"kernel": jnp.asarray(dice.normal(size=(4, 1))), "bias": jnp.float32(rank)}
weights = hvd.broadcast_parameters(weights, root_rank=0)
first = last = None
for step in range(settings["steps"]):
    sums, losses = jax.tree.map(jnp.zeros_like, weights), []
    for _ in range(PASSES):
        loss, gradients = value_and_grad(weights, dice.normal(size=(8, 4)))
        sums = jax.tree.map(jnp.add, sums, gradients)
        losses.append(loss)
    weights, norm = apply(weights, sums)
    mean, norm = hvd.grouped_allreduce([sum(losses) / PASSES, norm], name="metrics")
    first, last = mean if first is None else first, mean
    if rank == 0 and step % 10 == 0:
        print(f"step {step}: loss {mean:.4f}, norm {norm:.3f}", flush=True)
assert last < first / 10, (first, last)
hvd.check_replicas(weights)
assert np.allclose(weights["kernel"], TRUTH, atol=0.2), weights

# Each rank predicts its own part, and all see the whole.
predictions = hvd.allgather(jnp.ones((2 + rank, 4)) @ weights["kernel"], name="predictions")
assert predictions.shape == (sum(2 + r for r in range(size)), 1)
assert (predictions == predictions[0]).all()

# Among some ranks only.
alone = hvd.ProcessSet([0])
hvd.init(process_sets=[alone])  # the same set as at the beginning
if alone.included():
    own = hvd.allreduce(jnp.float32(rank), name="alone", op=hvd.Sum, process_set=alone)
    assert own == 0
names = hvd.allgather_object({"rank": rank, "steps": settings["steps"]}, name="report")
assert [entry["rank"] for entry in names] == list(range(size))
hvd.shutdown()
print("all right")
