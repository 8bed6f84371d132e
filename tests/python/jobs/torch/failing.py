"""A worker: an exception ends rank 1; the others say what they hear of it."""

from __future__ import annotations

import os
import signal

import torch

import byteps.torch as bps


def main() -> None:
    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # of the launcher; say first what was heard
    bps.init()
    try:  # from the barrier on: rank 1 may be out of it, and gone, before the others are
        bps.barrier()
        handles = []
        if "TEST_IDLE" not in os.environ:
            handles = [bps.allreduce_async(torch.ones(10)) for _ in range(3)]
        if bps.rank() == 1:
            raise RuntimeError("no data")
        for handle in handles:
            bps.synchronize(handle)
        bps.allreduce(torch.ones(3), name="without rank 1")
    except bps.BytepsError as error:
        print(f"the others hear {type(error).__name__}: {error}", flush=True)
        bps.shutdown()


if __name__ == "__main__":
    main()
