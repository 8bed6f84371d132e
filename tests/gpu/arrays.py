"""A rank that gives byteps.numpy arrays on a GPU, of CuPy if it is installed, and else of torch by
DLPack: each result must have the bits of the same operation on arrays of numpy, and be on the GPU.
With another name of a device than `cuda`, such as `cpu`, the program tries itself.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch

import byteps.numpy as bps

COUNTS = (0, 1, 1001, 1_000_003)
TYPES = ("float32", "float64", "float16", "int32", "int64", "uint8")

bps.init()
name = sys.argv[1] if len(sys.argv) > 1 else "cuda"
if name == "cuda":
    number = bps.local_rank() % torch.cuda.device_count()
    device = torch.device(name, number)
    torch.cuda.set_device(device)
else:
    device = torch.device(name)
try:
    import cupy
except ImportError:
    cupy = None
WIDTH = 1000 if name == "cuda" else 10  # of what keeps a stream busy
dice = np.random.default_rng(bps.rank())
compared = 0


def on_gpu(values: np.ndarray) -> Any:
    """Return the values on the GPU, as the last work of a stream that is busy."""
    if cupy is not None and name == "cuda":
        with cupy.cuda.Device(device.index):
            return cupy.asarray(values) + cupy.zeros((), values.dtype)
    busy = torch.ones(WIDTH, WIDTH, device=device)
    for _ in range(10):
        busy = busy @ busy * 0.001
    moved = torch.from_numpy(values).to(device)
    return moved + (busy[0, 0] * 0).to(moved.dtype)


def same(what: str, found: Any, expected: np.ndarray) -> None:
    """Compare a result with that of the host."""
    global compared
    compared += 1
    if name == "cuda" and found.__dlpack_device__()[0] != 2:
        raise SystemExit(f"{what}: the result is not on the GPU")
    if hasattr(found, "get"):
        found = found.get()
    elif isinstance(found, torch.Tensor):
        found = found.cpu().numpy()
    if found.dtype != expected.dtype or found.tobytes() != expected.tobytes():
        raise SystemExit(f"{what}: rank {bps.rank()} has other bits on {device}")


for dtype in TYPES:
    for count in COUNTS:
        mine = (dice.random(count) * 100).astype(dtype)
        for op in (bps.Sum, bps.Average, bps.Max):
            what = f"{op.name} {dtype} {count}"
            host = bps.allreduce(mine, name=f"host {what}", op=op)
            same(what, bps.allreduce(on_gpu(mine), name=f"gpu {what}", op=op), host)
            given = on_gpu(mine)
            bps.allreduce_(given, name=f"in place {what}", op=op)
            same(f"in place {what}", given, host)
        what = f"rows {dtype} {count}"
        host = bps.allgather(mine, name=f"host {what}")
        same(what, bps.allgather(on_gpu(mine), name=f"gpu {what}"), host)
        host = bps.broadcast(mine, bps.size() - 1, name=f"host copy {what}")
        same(what, bps.broadcast(on_gpu(mine), bps.size() - 1, name=f"gpu copy {what}"), host)
group = [dice.random(7), dice.random((3, 4))]
together = zip(
    bps.grouped_allreduce([on_gpu(one) for one in group], name="gpu group"),
    bps.grouped_allreduce(group, name="host group"),
    strict=True,
)
for found, expected in together:
    same("group", found, expected)
bps.shutdown()
library = "torch" if cupy is None or name != "cuda" else f"CuPy {cupy.__version__}"
print(f"all right: {compared} results compared, of {library}", flush=True)
