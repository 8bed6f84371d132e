"""A worker that sums a shared tensor in place until a rank is lost; then the tensor is its own."""

from __future__ import annotations

import itertools
import signal
import sys

import torch

import byteps.torch as bps

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher's: this worker ends by itself
bps.init()
tensor = bps.empty_shared(4 << 20)
try:
    for step in itertools.count():
        tensor.fill_(float(bps.rank()))
        bps.push_pull_inplace(tensor, average=False, name="step")
        expected = bps.size() * (bps.size() - 1) / 2
        assert (tensor == expected).all()
        if step == 3:
            sys.stdout.write(f"stepping {bps.rank()}\n")
            sys.stdout.flush()
except bps.PeerLostError as error:
    tensor.fill_(7.0)
    assert torch.equal(tensor, torch.full((4 << 20,), 7.0))
    sys.stdout.write(f"lost: {error}\n")
    sys.stdout.flush()
bps.shutdown()
