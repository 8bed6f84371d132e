"""A worker that exchanges tensors until something ends it; says when it has begun."""

from __future__ import annotations

import itertools
import sys

import numpy as np

import byteps.numpy as bps

bps.init()
for step in itertools.count():
    bps.push_pull(np.ones(100_000), name="step")
    if step == 3:
        # One write: ranks that share a pipe would mix what `print` writes in two.
        sys.stdout.write(f"stepping {bps.rank()}\n")
        sys.stdout.flush()
