"""Records three steps, each of which rank 1 begins 50 ms late: `recording.py FILE`."""

from __future__ import annotations

import sys
import time

import torch

import byteps.torch as bps

bps.init()
bps.push_pull(torch.ones(4), name="begin")
bps.start_timeline(sys.argv[1])
for _ in range(3):
    if bps.rank() == 1:
        time.sleep(0.05)
    bps.push_pull(torch.ones(4), name="step")
bps.stop_timeline()
bps.shutdown()
