"""A worker of any launcher: sums once, says who it is, and then ends as it is told.

Arguments: the rank that ends in another way, and how: an exit code, "kill", or "stay" (none does).
"""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np

import byteps.numpy as bps

bps.init()
total = bps.push_pull(np.full(3, bps.rank() + 1.0), average=False, name="total")
assert total.tolist() == [bps.size() * (bps.size() + 1) / 2] * 3
where = f"{bps.local_rank()}/{bps.local_size()} on {bps.cross_rank()}/{bps.cross_size()}"
servers = os.environ["DMLC_NUM_SERVER"]
# In one call: ranks may share a pipe, and an unbuffered print writes the end of a line alone.
os.write(1, f"all right {bps.rank()}/{bps.size()}, {where}, {servers} servers\n".encode())
if len(sys.argv) > 1:
    bps.push_pull(np.ones(1), name="said")  # nobody ends before all have said their line
    rank, ending = int(sys.argv[1]), sys.argv[2]
    if rank == bps.rank() and ending == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == bps.rank() and ending != "stay":
        sys.exit(int(ending))
    while True:  # as in training: what happens to others shows in the next exchange
        bps.push_pull(np.ones(3), name="step")
        time.sleep(0.05)
