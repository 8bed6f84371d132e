"""Workers as Ray actors: each one gets the variables that torchrun would set.

    python examples/ray_workers.py 2        # on a machine of a Ray cluster

Ray places the workers, one on each node if there are as many nodes. BytePS finds the variables and
makes a job of the workers; the first worker of each node starts a server.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections import Counter

import numpy as np
import ray


@ray.remote(num_cpus=1, max_restarts=0)
class Worker:
    """A process of the job."""

    def place(self) -> tuple[str, str, int]:
        """Return the node, its address, and a port that is free there."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        context = ray.get_runtime_context()
        return context.get_node_id(), ray.util.get_node_ip_address(), port

    def train(self, variables: dict[str, str]) -> list[float]:
        """Join the job and train."""
        os.environ.update(variables)
        import byteps.numpy as bps

        bps.init()
        total = bps.push_pull(np.full(3, bps.rank() + 1.0), average=False, name="gradient")
        bps.shutdown()
        return [float(value) for value in total]


def variables_of(places: list[tuple[str, str, int]]) -> list[dict[str, str]]:
    """Return torch's variables for each worker; those of a node follow each other."""
    secret = secrets.token_hex(16)  # Ray brings it to the workers, and to nobody else
    nodes = list(dict.fromkeys(node for node, _, _ in places))
    counts = Counter(node for node, _, _ in places)
    found = []
    for rank, (node, _, _) in enumerate(places):
        found.append(
            {
                "RANK": str(rank),
                "WORLD_SIZE": str(len(places)),
                "LOCAL_RANK": str(sum(other == node for other, _, _ in places[:rank])),
                "LOCAL_WORLD_SIZE": str(counts[node]),
                "NODE_RANK": str(nodes.index(node)),
                # Nodes may have different numbers of workers.
                "BYTEPS_LOCAL_SIZES": ",".join(str(counts[node]) for node in nodes),
                "MASTER_ADDR": places[0][1],
                "MASTER_PORT": str(places[0][2]),
                "BYTEPS_JOB_SECRET": secret,
            }
        )
    return found


def main() -> None:
    """Run a job in the Ray cluster of this machine, or in one that ends with this program."""
    count = int(sys.argv[1])
    ray.init(log_to_driver=True)
    workers = [Worker.options(scheduling_strategy="SPREAD").remote() for _ in range(count)]
    placed = ray.get([worker.place.remote() for worker in workers])
    # So that the workers of a node have ranks that follow each other.
    order = sorted(range(count), key=lambda index: placed[index][0])
    variables = variables_of([placed[index] for index in order])
    results = [workers[i].train.remote(v) for i, v in zip(order, variables, strict=True)]
    print(ray.get(results))


if __name__ == "__main__":
    main()
