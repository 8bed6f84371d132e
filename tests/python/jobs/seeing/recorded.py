"""Some steps with a tensor of several pieces, to which the last rank comes late: `recorded.py`.

What records them says the environment.
"""

from __future__ import annotations

import time

import numpy as np

import byteps.numpy as bps

STEPS, LATE_S = 4, 0.5

bps.init()
for _ in range(STEPS):
    if bps.rank() == bps.size() - 1:
        time.sleep(LATE_S)
    bps.allreduce(np.ones(100_000, np.float32), name="step")
bps.shutdown()
