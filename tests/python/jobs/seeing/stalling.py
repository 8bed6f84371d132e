"""One rank does not come to one tensor while a file is there: `stalling.py RANK FILE`; the others
wait for it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import byteps.numpy as bps

late, file = int(sys.argv[1]), Path(sys.argv[2])
bps.init()
for step in range(3):
    bps.push_pull(np.ones(1000), name=f"layer.{step}")
while bps.rank() == late and file.exists():
    time.sleep(0.05)
bps.push_pull(np.ones(1000), name="the.planted.one")
print("all steps are done", flush=True)
bps.shutdown()
