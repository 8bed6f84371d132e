"""A script for Horovod as one would write it for JAX: an optimizer of optax, a step in jit, metrics
that are averaged, and a checkpoint of rank 0. Only the import is byteps'."""

import pickle
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

import byteps.jax as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()

# A task that can be learned: which quarter of the plane a point is in.
dice = np.random.default_rng(42)
inputs = dice.normal(size=(512, 2)).astype(np.float32)
labels = (inputs[:, 0] > 0) * 2 + (inputs[:, 1] > 0)
mine = slice(rank, 512 // size * size, size)


def logits_of(weights, images):
    hidden = jax.nn.relu(images @ weights["hidden"] + weights["bias"])
    return hidden @ weights["output"]


def loss_of(weights, images, targets):
    logits = logits_of(weights, images)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, targets)
    return losses.mean(), (logits.argmax(axis=1) == targets).mean()


keys = jax.random.split(jax.random.key(rank))  # other numbers on each rank
weights = {
    "hidden": jax.random.normal(keys[0], (2, 32)),
    "bias": jnp.zeros(32),
    "output": jax.random.normal(keys[1], (32, 4)) / 6,
}
# The rate grows with the number of workers.
optimizer = hvd.DistributedOptimizer(optax.adam(0.01 * size), compression=hvd.Compression.fp16)
state = optimizer.init(weights)
weights = hvd.broadcast_parameters(weights, root_rank=0)
state = hvd.broadcast_parameters(state, root_rank=0)


@jax.jit
def training_step(weights, state, images, targets):
    gradients, (loss, hits) = jax.grad(
        lambda weights: (lambda found: (found[0], found))(loss_of(weights, images, targets)),
        has_aux=True,
    )(weights)
    updates, state = optimizer.update(gradients, state, weights)
    return optax.apply_updates(weights, updates), state, loss, hits


for epoch in range(8):
    batches = zip(np.array_split(inputs[mine], 8), np.array_split(labels[mine], 8), strict=True)
    for images, targets in batches:
        weights, state, loss, hits = training_step(weights, state, images, targets)
    loss = hvd.allreduce(loss, average=None, name="loss")
    hits = hvd.allreduce(hits, name="hits", op=hvd.Average)
    if rank == 0:
        print(f"epoch {epoch}: loss {loss:.4f}, accuracy {hits:.3f}", flush=True)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "checkpoint"
    if rank == 0:  # the others would write the same
        path.write_bytes(pickle.dumps(jax.tree.map(np.asarray, weights)))
    saved = pickle.loads(path.read_bytes()) if rank == 0 else None
    saved = hvd.broadcast_object(saved, root_rank=0, name="checkpoint")

hvd.check_replicas(weights)
assert all(jax.tree.leaves(jax.tree.map(lambda a, b: (a == np.asarray(b)).all(), saved, weights)))
accuracy = float((logits_of(weights, inputs).argmax(axis=1) == labels).mean())
assert accuracy > 0.9, accuracy
print("all right")
