"""A worker that runs another program of torch with all tensors in the memory of the stand-in for
the CUDA driver. Its stream runs late, so a copy that did not wait for it would find other bytes.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import checks
import torch
from stand_in import NAME, StandIn

import byteps.torch as bps
from byteps.torch import devices

DELAY_US = 100

checks.times_max = 1
checks.skipped = {
    "collectives.check_mismatch": "it ends after a limit, and has nothing of a device",
    "collectives.check_time_limit": "the same",
    "__main__.check_hook": "it takes gloo for the first copies, which knows no such device",
    "__main__.check_hook_error": "the same",
    "__main__.check_parallel_copied": "torch cannot load tensors of a device of Python",
    "checks_cross_barrier.check_cross_barrier_past_a_module": "torch ends the process when a hook "
    "raises on the thread that it has for such a device",
    "checks_gather.check_state": "torch cannot load tensors of a device that Python has defined",
}

program, *arguments = sys.argv[1:]
stand_in = StandIn(os.environ["BYTEPS_CUDA_LIBRARY"], 0)
devices.TYPES[NAME] = devices.DeviceType(
    lambda _: stand_in.stream, lambda _: stand_in.synchronize()
)
assert bps.cuda_built()
stand_in.late(int(os.environ.get("DMLC_WORKER_ID", "0")) + 1, DELAY_US)
torch.set_default_device(NAME)
sys.argv = [program, *arguments]
runpy.run_path(str(Path(__file__).with_name(f"{program}.py")), run_name="__main__")
print(f"{checks.ran} checks, {stand_in.operations} operations of torch on {NAME}", flush=True)
