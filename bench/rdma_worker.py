"""The worker of `rdma.py`: sums a tensor again and again; prints the seconds and a digest."""

from __future__ import annotations

import hashlib
import json
import sys
import time

import numpy as np

import byteps.numpy as bps

WARM_UP = 3


def main() -> None:
    """Arguments: bytes of the tensor, rounds."""
    nbytes, rounds = int(sys.argv[1]), int(sys.argv[2])
    bps.init()
    data = np.random.default_rng(0).normal(size=nbytes // 4).astype(np.float32)
    digest = hashlib.sha256()
    for _ in range(WARM_UP):
        digest.update(bps.push_pull(data, name="data", average=False).tobytes())
    begun = time.monotonic()
    for _ in range(rounds):
        bps.push_pull_inplace(data, name="data", average=False)
    seconds = time.monotonic() - begun
    digest.update(data.tobytes())
    print(json.dumps({"seconds": seconds, "digest": digest.hexdigest()}), flush=True)
    bps.shutdown()


if __name__ == "__main__":
    main()
