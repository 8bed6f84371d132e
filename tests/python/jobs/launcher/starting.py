"""Ranks named in STARTING ("1:3 2:0") end with that code before they join; the others add up."""

from __future__ import annotations

import os
import sys

codes = dict(pair.split(":") for pair in os.environ["STARTING"].split())
own = os.environ["BYTEPS_LOCAL_RANK"]
if own in codes:
    sys.exit(int(codes[own]))

import torch  # noqa: E402

import byteps.torch as bps  # noqa: E402

bps.init()
handle = bps.push_pull_async(torch.full((5,), 1.0 + bps.rank()), average=False, name="total")
total = bps.synchronize(handle)
# The round's own members: bps.members() is of now, when others may have left already.
print(f"{total.tolist()} of {handle.members}")
bps.shutdown()
