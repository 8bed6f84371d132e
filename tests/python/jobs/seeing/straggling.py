"""Steps in which one rank comes 100 ms late: `straggling.py RANK`; it ends when its file goes."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

import byteps.torch as bps

late, file = int(sys.argv[1]), Path(sys.argv[2])
bps.init()
go_on = torch.ones(1)
print("the job runs", flush=True)
while True:
    if bps.rank() == late:
        time.sleep(0.1)
    bps.push_pull(torch.ones(1000), name="gradient")
    go_on.fill_(1.0 if file.exists() else 0.0)
    if bps.broadcast(go_on.clone(), 0, name="go_on").item() == 0:
        break
bps.shutdown()
