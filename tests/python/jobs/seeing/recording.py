"""Records three steps, each of which rank 1 begins 0.5 s after rank 0: `recording.py FILE`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

import byteps.torch as bps

bps.init()
bps.push_pull(torch.ones(4), name="begin")
bps.start_timeline(sys.argv[1])
for step in range(3):
    begun = Path(f"{sys.argv[1]}.step{step}")
    if bps.rank() == 1:
        while not begun.exists():
            time.sleep(0.001)
        time.sleep(0.5)
    handle = bps.push_pull_async(torch.ones(4), name="step")
    begun.touch()
    bps.synchronize(handle)
bps.stop_timeline()
bps.shutdown()
