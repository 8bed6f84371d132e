"""A worker that adds up the same values again and again, each time in another place.

    bits_worker.py byteps|gloo

Reads "run LAYOUTS COUNT FIRST" from stdin: exchange COUNT layouts, from number FIRST on. Every rank
has values of its own, the same in all layouts. A layout puts them at a place of its own into a
tensor of a length of its own, and the ranks begin at moments of their own. The answer counts the
sums whose bits are not those of the first layout. Started by lab.py.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from harness.usage import cpu_seconds

VALUES = 1024
MOST_ELEMENTS = 1 << 16
MOST_WAIT_S = 2e-3
SEED = 31

Sum = Callable[[Any], Any]


def byteps_sum() -> tuple[Sum, int, int]:
    import byteps.numpy as bps

    bps.init()

    def add_up(tensor: Any) -> Any:
        return bps.push_pull(tensor, name=f"layout/{tensor.size}", average=False)

    return add_up, bps.rank(), bps.size()


def gloo_sum() -> tuple[Sum, int, int]:
    import datetime

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=300))

    def add_up(tensor: Any) -> Any:
        dist.all_reduce(torch.from_numpy(tensor))
        return tensor

    return add_up, dist.get_rank(), dist.get_world_size()


LIBRARIES = {"byteps": byteps_sum, "gloo": gloo_sum}


def exchange(add_up: Sum, values: Any, layout: int, rank: int) -> Any:
    """Return the bits of the sums of the values, exchanged in this layout."""
    common = np.random.default_rng([SEED, layout])  # alike on all ranks
    own = np.random.default_rng([SEED, layout, rank])
    elements = int(common.integers(VALUES, MOST_ELEMENTS, endpoint=True))
    begin = int(common.integers(0, elements - VALUES, endpoint=True))
    tensor = own.standard_normal(elements, dtype=np.float32)
    tensor[begin : begin + VALUES] = values
    time.sleep(float(own.uniform(0, MOST_WAIT_S)))
    return add_up(tensor)[begin : begin + VALUES].view(np.uint32)


def main() -> None:
    add_up, rank, size = LIBRARIES[sys.argv[1]]()
    values = np.random.default_rng([SEED, rank]).standard_normal(VALUES, dtype=np.float32)
    first = exchange(add_up, values, 0, rank).copy()
    for line in sys.stdin:
        _, case, count, begin = line.split()
        cpu, begin_ns = cpu_seconds(), time.monotonic_ns()
        differing = 0
        for layout in range(int(begin), int(begin) + int(count)):
            differing += int((exchange(add_up, values, layout, rank) != first).sum())
        answer = {
            "case": case,
            "rank": rank,
            "size": size,
            "cpu_seconds": cpu_seconds() - cpu,
            "begin_ns": begin_ns,
            "end_ns": time.monotonic_ns(),
            "wrong": 0,
            "differing": differing,
            "bits": first.tobytes().hex(),
        }
        print(json.dumps(answer), flush=True)
    sys.stdout.flush()
    os._exit(0)  # a group that its ranks leave one by one complains


if __name__ == "__main__":
    main()
