"""k-means over all ranks' points, with numpy alone: a model that no framework trains.

Run it: bps run -np 4 python examples/numpy_kmeans.py
Every rank has points of its own; only the sums and counts of the clusters travel.
"""

import numpy as np

import byteps.numpy as bps

CLUSTERS, POINTS, STEPS = 5, 20_000, 12


def main() -> None:
    """Find the centers of the clusters."""
    bps.init()
    dice = np.random.default_rng(bps.rank())
    true_centers = np.random.default_rng(99).uniform(-10, 10, (CLUSTERS, 2))
    points = true_centers[dice.integers(CLUSTERS, size=POINTS)] + dice.normal(size=(POINTS, 2))

    # All ranks begin with rank 0's guess.
    centers = bps.broadcast(points[:CLUSTERS], root_rank=0, name="guess")
    for _ in range(STEPS):
        distances = ((points[:, None] - centers) ** 2).sum(axis=2)
        nearest = distances.argmin(axis=1)
        sums = np.zeros_like(centers)
        np.add.at(sums, nearest, points)
        counts = np.bincount(nearest, minlength=CLUSTERS).astype(float)
        loss = distances.min(axis=1).sum()
        # One operation: three arrays travel together.
        sums, counts, loss = bps.grouped_allreduce([sums, counts, loss], name="step", op=bps.Sum)
        centers = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centers)

    bps.check_replicas({"centers": centers})
    if bps.rank() == 0:
        total = POINTS * bps.size()
        print(f"{total} points on {bps.size()} ranks: mean squared distance {loss / total:.3f}")
    bps.shutdown()


if __name__ == "__main__":
    main()
