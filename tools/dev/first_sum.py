"""What `./dev wheel` and `./dev first-sum` run with a wheel: a first sum, and sums whose bits
depend on the order of the additions. Rank 0 prints a digest of them, the same on every machine.
"""

import hashlib
import platform

import numpy as np

import byteps.numpy as bps

bps.init()
rank, size = bps.rank(), bps.size()
total = bps.allreduce(np.arange(4.0), op=bps.Sum, name="first")
assert total.tolist() == [0.0, 1.0 * size, 2.0 * size, 3.0 * size], total
numbers = np.random.default_rng(rank)
digest = hashlib.sha256()
for kind in (np.float16, np.float32, np.float64):
    # Exact numbers of very different sizes, so that sums are rounded.
    whole = numbers.integers(-512, 512, 50_000)
    values = np.ldexp(whole.astype(np.float64), numbers.integers(-10, 5, whole.size)).astype(kind)
    if kind is not np.float16:
        values = np.ldexp(values * kind(1 / 3), numbers.integers(-30, 30, whole.size))
    digest.update(bps.allreduce(values, op=bps.Sum, name=kind.__name__).tobytes())
if rank == 0:
    system = f"{platform.machine()}, {' '.join(platform.libc_ver())}"
    print(f"first sum: {total.tolist()} on {system}, Python {platform.python_version()}")
    print(f"bits: {digest.hexdigest()[:32]}")
