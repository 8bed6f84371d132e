"""One rank sleeps before one tensor: `stalling.py RANK SECONDS`; the others wait for it."""

from __future__ import annotations

import sys
import time

import numpy as np

import byteps.numpy as bps

late, pause_s = int(sys.argv[1]), float(sys.argv[2])
bps.init()
for step in range(3):
    bps.push_pull(np.ones(1000), name=f"layer.{step}")
if bps.rank() == late:
    time.sleep(pause_s)
bps.push_pull(np.ones(1000), name="the.planted.one")
print("all steps are done", flush=True)
bps.shutdown()
