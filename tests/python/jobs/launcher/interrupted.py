"""Rank 0 interrupts its first init, pauses and joins again; the other one comes in the pause."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import torch

import byteps.torch as bps

told, pause = Path(sys.argv[1]), float(sys.argv[2])


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if os.environ["BYTEPS_LOCAL_RANK"] == "0":
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 2)
    try:
        bps.init()
    except KeyboardInterrupt:
        assert not bps.is_initialized()
    else:
        raise AssertionError("not interrupted")
    told.touch()
    time.sleep(pause)
else:
    while not told.exists():
        time.sleep(0.02)
bps.init()
tensor = torch.full((2,), 1.0 + bps.rank())
print(bps.push_pull(tensor, average=False, name="total").tolist())
bps.shutdown()
