"""A user's program for numpy, as a checker of types sees it. Never run."""

import numpy as np

import byteps.numpy as bps

bps.init(process_sets=[bps.ProcessSet([0])])
mean = bps.allreduce(np.ones(3), name="mean")
bps.allreduce_(np.ones(3), name="sum", op=bps.Sum)
handle = bps.push_pull_async(np.ones(3), name="later")
mean = bps.synchronize(handle)
bps.broadcast_parameters({"w": np.ones(3)}, root_rank=0)
shared = bps.empty_shared((3, 4), np.float32)
counts: list[object] = bps.allgather_object({"rank": bps.rank()})

bps.synchronize("later")  # type: ignore[call-overload]
bps.allreduce(np.ones(3), average="yes")  # type: ignore[arg-type]
bps.broadcast(np.ones(3))  # type: ignore[call-arg]
bps.all_reduce(np.ones(3))  # type: ignore[attr-defined]
